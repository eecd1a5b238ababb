//! A file of what a service is made of.

/// One file of a service's artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFile {
    /// Path, as the repository names it.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What it holds, where that can be shown.
    pub content: FileContent,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// Text.
    Text(String),
    /// No text.
    Binary,
    /// More than an answer has room for.
    LeftOut,
}

impl ServiceFile {
    /// Files of one answer.
    pub const MOST: usize = 2_000;
    /// Bytes of text of one file that is one of many.
    pub const LARGEST: usize = 256 << 10;
    /// Bytes of text of a file that was asked for by itself.
    pub const LARGEST_ALONE: usize = 1 << 20;
    /// Bytes of text of one answer.
    pub const LARGEST_ANSWER: usize = 4 << 20;

    /// The files of one answer, in the order they are given: what is beyond a limit is left out.
    pub fn answer<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>, alone: bool) -> Vec<Self> {
        let largest = if alone { Self::LARGEST_ALONE } else { Self::LARGEST };
        let mut room = Self::LARGEST_ANSWER;
        let file = |(path, bytes): (&str, &[u8])| {
            let content = match std::str::from_utf8(bytes) {
                Err(_) => FileContent::Binary,
                Ok(text) if text.contains('\0') => FileContent::Binary,
                Ok(text) if text.len() > largest.min(room) => FileContent::LeftOut,
                Ok(text) => {
                    room -= text.len();
                    FileContent::Text(text.to_owned())
                }
            };
            Self { path: path.to_owned(), size: bytes.len() as u64, content }
        };
        files.into_iter().take(Self::MOST).map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_far_as_there_is_room() {
        let large = "x".repeat(ServiceFile::LARGEST + 1);
        let files =
            [("a.yaml", "a: 1".as_bytes()), ("b.png", &[0xff, 0]), ("c", b"a\0b"), ("d", large.as_bytes())];
        let told = ServiceFile::answer(files, false);
        let contents: Vec<&FileContent> = told.iter().map(|file| &file.content).collect();
        let text = FileContent::Text("a: 1".to_owned());
        assert_eq!(contents, [&text, &FileContent::Binary, &FileContent::Binary, &FileContent::LeftOut]);
        assert_eq!(told[3].size, large.len() as u64);
        let alone = ServiceFile::answer([("d", large.as_bytes())], true);
        assert_eq!(alone[0].content, FileContent::Text(large));

        let full = vec![b'y'; ServiceFile::LARGEST];
        let many = (0..3_000).map(|_| ("e", full.as_slice()));
        let told = ServiceFile::answer(many, false);
        assert_eq!(told.len(), ServiceFile::MOST);
        let shown = told.iter().filter(|file| file.content != FileContent::LeftOut).count();
        assert_eq!(shown, ServiceFile::LARGEST_ANSWER / ServiceFile::LARGEST);
    }
}
