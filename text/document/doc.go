// Package document reads what people keep text in, and splits it for models.
//
// [Check] recognizes what is no text, by its first bytes, and says which program makes text of it. [Extract]
// makes plain text of a document: of HTML and EPUB, of UTF-16, and of UTF-8 with a byte order mark. Headings
// of HTML become those of Markdown. [Split] divides a text into parts of a limited number of tokens, where
// its author has divided it: before a heading, else between paragraphs, else behind a sentence.
//
// Documents are untrusted input. Everything is read in windows of a fixed size, so memory does not grow with
// the document.
package document
