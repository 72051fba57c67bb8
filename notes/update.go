package notes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/notes/index"
)

// Updated is what an update has done.
type Updated struct {
	Notes    int `json:"notes"`    // of the directory
	Passages int `json:"passages"` // of all notes
	Computed int `json:"computed"` // notes that were new or changed
	Reused   int `json:"reused"`   // notes that were as the index had them
	Removed  int `json:"removed"`  // notes that are not there any more
	Embedded int `json:"embedded"` // passages whose vectors were computed
	Vectors  int `json:"vectors"`  // passages that have a vector of the model
	// Skipped counts files that are no text or cannot be read.
	Skipped int `json:"skipped"`
}

// UpdateProgress is how far an update is.
type UpdateProgress struct{ Done, Total int }

// Update brings the index up to date. It reads all notes, whose content decides what has changed. If ctx ends, finished
// notes stay, and the next update goes on.
func (v *Vault) Update(ctx context.Context) (Updated, error) {
	return v.UpdateWith(ctx, func(UpdateProgress) {})
}

// UpdateWith is Update, and calls progress behind each note.
func (v *Vault) UpdateWith(ctx context.Context, progress func(UpdateProgress)) (done Updated, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x, err := v.opened()
	if err != nil {
		return done, err
	}
	files, err := v.tree.Files(v.options.Notify)
	if err != nil {
		return done, err
	}
	w, err := x.Begin()
	if err != nil {
		return done, err
	}
	u := updater{v: v, w: w, x: x, done: &done}
	err = u.run(ctx, files, progress)
	if err = errors.Join(err, w.Close()); err != nil {
		return done, err
	}
	info := x.Info()
	done.Notes, done.Passages, done.Vectors = info.Notes, info.Passages, info.Vectors
	return done, nil
}

// updater is an update under way.
type updater struct {
	v    *Vault
	w    *index.Writer
	x    *index.Index
	done *Updated
}

// run updates notes, and removes those that are gone.
func (u *updater) run(ctx context.Context, files []string, progress func(UpdateProgress)) error {
	present := make(map[string]bool, len(files))
	for i, name := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		there, err := u.note(ctx, name)
		if err != nil {
			return err
		}
		present[name] = there
		progress(UpdateProgress{i + 1, len(files)})
	}
	for name := range u.x.Notes() {
		if !present[name] {
			if err := u.w.Remove(name); err != nil {
				return err
			}
			delete(u.v.stamps, name)
			u.done.Removed++
		}
	}
	return nil
}

// note updates a note. there is false for a file that is no note.
func (u *updater) note(ctx context.Context, name string) (there bool, err error) {
	stamp, err := u.v.tree.Stamp(name)
	hash, known := u.x.Hash(name)
	if err == nil && stamp != "" && known && u.v.stamps[name] == stamp && u.embedded(name) {
		u.done.Reused++
		return true, nil
	}
	text, err := u.v.tree.Read(name)
	if err != nil {
		return u.skip(name, err)
	}
	var n index.Note
	if known && hash == sha256.Sum256(text) {
		u.done.Reused++
	} else {
		if n, err = index.MakeNote(name, text); err != nil {
			return u.skip(name, err)
		}
		if err := u.w.Put(&n); err != nil {
			return true, err
		}
		u.done.Computed++
	}
	if err := u.embed(ctx, name, text); err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	if stamp != "" {
		u.v.stamps[name] = stamp
	}
	return true, nil
}

// embedded reports whether all passages of a note have the vectors that they need.
func (u *updater) embedded(name string) bool {
	return u.v.options.Embedder == nil || len(u.w.Missing(name)) == 0
}

// skip leaves a file out. One that was just removed is not mentioned.
func (u *updater) skip(name string, err error) (bool, error) {
	if !index.IsMissing(err) {
		u.v.options.Notify(fmt.Sprintf("%s is left out: %v", name, err))
		u.done.Skipped++
	}
	return false, nil
}

// embedBatch is how many passages of a note are embedded together.
const embedBatch = 32

// embed computes the vectors that a note's passages lack.
func (u *updater) embed(ctx context.Context, name string, text []byte) error {
	if u.v.options.Embedder == nil {
		return nil
	}
	title := u.x.Title(name)
	for missing := u.w.Missing(name); len(missing) > 0; {
		batch := missing[:min(embedBatch, len(missing))]
		missing = missing[len(batch):]
		texts, keys := make([]string, len(batch)), make([]index.Key, len(batch))
		for i, p := range batch {
			texts[i], keys[i] = index.EmbedText(title, text[p.Start:p.End]), p.Key
		}
		vectors, err := u.v.options.Embedder.Embed(ctx, texts, false)
		if err != nil {
			return err
		}
		if len(vectors) != len(texts) {
			return fmt.Errorf("the model gave %d vectors for %d passages", len(vectors), len(texts))
		}
		if err := u.w.PutVectors(keys, vectors); err != nil {
			return err
		}
		u.done.Embedded += len(keys)
	}
	return nil
}
