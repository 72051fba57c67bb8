// Package notes searches a directory of notes in Markdown, such as a vault of Obsidian, and finds what a model needs to
// answer questions about them.
//
// [Open] returns a [Vault]. [Vault.Update] reads what has changed, [Vault.Search] finds passages, and [Vault.Ask] makes
// the prompt of a question from the passages that answer it, with their sources. Without an encoder, passages are found
// by their words alone (BM25). With one, which [NewEncoder] makes of an engine, the rankings by words and by vectors are fused.
//
//	vault, err := notes.Open(dir, nil)
//	…
//	defer vault.Close()
//	_, err = vault.Update(ctx)
//	hits, err := vault.Search(ctx, "When is the report due?", notes.SearchOptions{})
//
// The index is a file in the user's cache directory. It holds hashes of words, and no text: that stays in the notes,
// which are only read. A note is read again after its content has changed, and a passage is embedded again after its
// text has changed.
package notes
