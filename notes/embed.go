package notes

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/notes/index"
)

const (
	// embedTexts and embedBytes are the most passages, of any notes, that are embedded together. They fill several passes of an
	// encoder, and are what an interruption costs.
	embedTexts = 32
	embedBytes = 8 << 10
)

// embedBatch is passages that are embedded together.
type embedBatch struct {
	texts   []string
	keys    []index.Key
	has     map[index.Key]bool
	bytes   int
	covered int    // passages, with those that need no vector of their own
	first   string // the note of the first one
}

// embed computes the vectors that passages of notes lack.
func (u *updater) embed(ctx context.Context, files []string) error {
	if u.v.options.Embedder == nil {
		return nil
	}
	at := UpdateProgress{Embedding: true}
	for _, name := range files {
		at.Total += len(u.w.Missing(name))
	}
	if at.Total > 0 {
		u.progress(at)
	}
	batch := embedBatch{has: map[index.Key]bool{}}
	for _, name := range files {
		missing := u.w.Missing(name)
		if len(missing) == 0 {
			continue
		}
		text, err := u.v.tree.Read(name)
		if err != nil {
			text = nil // it was removed a moment ago: the next update removes it
		}
		title := u.x.Title(name)
		for _, p := range missing {
			batch.covered++
			if passage, same := current(title, text, p.Start, p.End, p.Key); same && !batch.has[p.Key] {
				batch.add(name, passage, p.Key)
			}
			if len(batch.texts) == embedTexts || batch.bytes >= embedBytes {
				if err := u.flush(ctx, &batch, &at); err != nil {
					return err
				}
			}
		}
	}
	return u.flush(ctx, &batch, &at)
}

// current returns a passage as an encoder reads it; same is false if the note has changed since the index has seen it.
func current(title string, text []byte, start, end int, key index.Key) (passage string, same bool) {
	if end > len(text) {
		return "", false
	}
	passage = index.EmbedText(title, text[start:end])
	return passage, index.KeyOf(passage) == key
}

func (b *embedBatch) add(name, passage string, key index.Key) {
	if len(b.texts) == 0 {
		b.first = name
	}
	b.texts, b.keys, b.bytes = append(b.texts, passage), append(b.keys, key), b.bytes+len(passage)
	b.has[key] = true
}

// flush embeds a batch, and empties it.
func (u *updater) flush(ctx context.Context, b *embedBatch, at *UpdateProgress) error {
	if ctx.Err() != nil {
		return ended.By(ctx)
	}
	if len(b.texts) > 0 {
		vectors, err := u.v.options.Embedder.Embed(ctx, b.texts, false)
		if err == nil && len(vectors) != len(b.texts) {
			err = fmt.Errorf("the model gave %d vectors for %d passages", len(vectors), len(b.texts))
		}
		if err == nil {
			err = u.w.PutVectors(b.keys, vectors)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.first, err)
		}
		u.done.Embedded += len(b.keys)
	}
	if at.Done += b.covered; b.covered > 0 {
		u.progress(*at)
	}
	clear(b.has)
	*b = embedBatch{texts: b.texts[:0], keys: b.keys[:0], has: b.has}
	return nil
}
