// @ts-check
// A run that the server has.

/** @param {import("../types.js").Api} api @param {import("../types.js").Summary} summary @returns {import("../types.js").Source} */
export function serverSource(api, summary) {
  const base = `runs/${summary.id}`;
  const stamps = summary.processes.length <= 32 ? "&stamps=vector" : "";
  return {
    summary,
    index: () => api.get(`${base}/index`),
    events: async (from, limit) => (await api.get(`${base}/events?from=${from}&limit=${limit}${stamps}`)).events,
    at: (moment) => api.get(`${base}/at/${moment}`),
    order: (event) => api.get(`${base}/order/${event}`),
    cut: (frontier) => api.post(`${base}/cut`, { frontier }),
  };
}
