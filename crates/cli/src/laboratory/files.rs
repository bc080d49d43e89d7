//! Files in, files out.

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use conclave_core::NodeId;
use conclave_trace::{
    Block, Command, Script, Setup, Stamps, SvgOptions, Trace, View, commands_of, mermaid, milliseconds,
    shiviz, svg,
};

use super::args::{Ids, OutputArgs, Window};
use super::catalogue::Catalogue;
use super::errors::clock_plot;
use super::names;
use crate::failure::Failure;

/// No script and no trace that a person can wait for is larger.
const MOST_BYTES: u64 = 4 << 30;

/// Reads a text; `-` is standard input.
pub fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::new(format!("'{}' is not a text", path.display())),
        _ => Failure::file("read", path, &error),
    };
    let mut text = String::new();
    if is_standard(path) {
        io::stdin().take(MOST_BYTES).read_to_string(&mut text).map_err(failed)?;
    } else {
        fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text))
            .map_err(failed)?;
    }
    Ok(text)
}

/// Whether this stands for standard input.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Says whether a file can be written, without leaving a trace: better now than after a long run.
pub fn check(path: &Path) -> Result<(), Failure> {
    if is_special(path) {
        return Ok(());
    }
    draft(path).map(drop).map_err(|error| Failure::file("write", path, &error))
}

/// Writes a file, all of it or nothing: it is written beside its place and then moved there.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let written = if is_special(path) {
        fs::OpenOptions::new().write(true).open(path).and_then(|mut file| fill(&mut file, content))
    } else {
        draft(path).and_then(|mut draft| {
            fill(draft.as_file_mut(), content)?;
            draft.persist(target(path)).map(drop).map_err(|error| error.error)
        })
    };
    written.map_err(|error| Failure::file("write", path, &error))
}

fn fill(file: &mut fs::File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    content(&mut out)?;
    out.flush()
}

/// Something that is there and is neither file nor directory, like `/dev/null`: it must not be replaced.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Where the bytes belong: behind a link, so that the link stays one.
fn target(path: &Path) -> PathBuf {
    let beside = || Some(fs::canonicalize(directory_of(path)).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An empty file beside the place of another, gone when it is dropped.
fn draft(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let path = target(path);
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if fs::metadata(&path).is_ok_and(|data| data.permissions().readonly()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".conclave-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As for any new file; what the user's mask forbids is taken away.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory_of(&path))
}

impl OutputArgs {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let all = [&self.trace, &self.svg, &self.shiviz, &self.mermaid, &self.plot];
        all.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Whether a file was asked for.
    pub fn wants_files(&self) -> bool {
        self.paths().next().is_some()
    }

    /// Whether all the files can be written.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_with(None)
    }

    /// The same, with one more.
    pub fn check_with(&self, other: Option<&Path>) -> Result<(), Failure> {
        let mut seen = Vec::new();
        for path in self.paths().chain(other) {
            check(path)?;
            let place = target(path);
            if seen.contains(&place) && !is_special(path) {
                return Err(Failure::new(format!(
                    "two outputs would go into the one file '{}'",
                    path.display()
                )));
            }
            seen.push(place);
        }
        Ok(())
    }

    /// Writes the files that were asked for.
    pub fn write(&self, trace: &Trace) -> Result<(), Failure> {
        let text = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
            Some(path) => write(path, |out| out.write_all(text().as_bytes())),
            None => Ok(()),
        };
        if let Some(path) = &self.trace {
            write(path, |mut out| trace.write_jsonl(&mut out))?;
        }
        text(&self.svg, &|| self.drawing(trace))?;
        text(&self.shiviz, &|| shiviz(trace))?;
        text(&self.mermaid, &|| mermaid(&self.shown(trace)))?;
        let Some(path) = &self.plot else { return Ok(()) };
        let plot = clock_plot(trace).ok_or_else(|| {
            Failure::new("nobody reads a clock in this run")
                .hint("--plot is for the algorithms of physical clocks")
        })?;
        write(path, |out| out.write_all(plot.svg(self.theme.into()).as_bytes()))
    }

    /// The space-time diagram.
    pub fn drawing(&self, trace: &Trace) -> String {
        let options = SvgOptions {
            stamps: self.stamps.into(),
            counted: self.count.into(),
            axis: self.axis.into(),
            theme: self.theme.into(),
            title: self.title(trace),
            ..SvgOptions::default()
        };
        svg(&self.shown(trace), &options)
    }

    /// What the title of a drawing says where only a part is drawn.
    fn title(&self, trace: &Trace) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(Ids(ids)) = &self.only {
            parts.push(ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        }
        if let Some(Window { from, to }) = self.window {
            parts.push(format!("{} to {} ms", milliseconds(from), milliseconds(to)));
        }
        let header = &trace.header;
        let n = header.nodes.len() - header.newcomers.len().min(header.nodes.len());
        (!parts.is_empty()).then(|| format!("{}, n = {n}: {}", header.algorithm, parts.join(", ")))
    }

    /// What drawings show of a trace: a part of it, with the stamps and the words that are wanted.
    pub fn shown<'a>(&self, trace: &'a Trace) -> Cow<'a, Trace> {
        let view = View {
            window: self.window.map(|window| (window.from, window.to)),
            only: self.only.as_ref().map(|Ids(ids)| ids.clone()).unwrap_or_default(),
            hide_overhead: self.hide.is_some(),
            fields: self.fields,
            names: self.names.map(|_| names::of(&trace.header.algorithm)).unwrap_or_default(),
        };
        let stamps = Stamps::from(self.stamps);
        if view.is_plain() && stamps == Stamps::None {
            return Cow::Borrowed(trace);
        }
        let mut stamped = Cow::Borrowed(trace);
        if stamps != Stamps::None {
            stamped.to_mut().stamp_counting(self.count.into(), stamps == Stamps::Vector);
        }
        Cow::Owned(view.of(&stamped))
    }

    /// Refuses to draw processes that do not take part.
    pub fn check_only(&self, nodes: &[NodeId]) -> Result<(), Failure> {
        let strangers = self.only.iter().flat_map(|Ids(ids)| ids).find(|id| !nodes.contains(id));
        match strangers {
            Some(id) => Err(Failure::new(format!("--only names {id}, which is not one of the processes"))),
            None => Ok(()),
        }
    }
}

/// Writes a run as a script.
pub fn save_script(path: &Path, trace: &Trace, catalogue: &Catalogue) -> Result<(), Failure> {
    let text = script(trace, catalogue)?;
    write(path, |out| out.write_all(text.as_bytes()))
}

/// A run as a script: what it was told to do, and what came of it.
pub fn script(trace: &Trace, catalogue: &Catalogue) -> Result<String, Failure> {
    let failed =
        |why: &dyn core::fmt::Display| Failure::new(format!("this run cannot be written as a script: {why}"));
    let run = Command::Run(Setup::from_header(&trace.header));
    let commands = core::iter::once(run).chain(commands_of(trace));
    let block = |command| Block { commands: vec![(command, 0)], ..Block::default() };
    let played =
        catalogue.play(&Script { blocks: commands.map(block).collect() }).map_err(|error| failed(&error))?;
    // What had no visible effect stands with the next that has one.
    let mut script = Script::default();
    let mut open = Block::default();
    for block in played.script.blocks {
        open.commands.extend(block.commands);
        open.recorded = block.recorded;
        if !open.recorded.is_empty() {
            script.blocks.push(core::mem::take(&mut open));
        }
    }
    if !open.commands.is_empty() {
        script.blocks.push(open);
    }
    let text = script.to_string();
    Script::parse(&text).map_err(|error| failed(&error))?;
    Ok(text)
}
