package notes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/internal/ended"
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

// UpdateProgress is how far an update is: notes that are read, and then passages that are embedded.
type UpdateProgress struct {
	Done, Total int
	Embedding   bool // passages are counted; the first call has Done 0
}

// Update brings the index up to date. It reads all notes, whose content decides what has changed. If ctx ends, finished
// notes stay, and the next update goes on.
func (v *Vault) Update(ctx context.Context) (Updated, error) {
	return v.UpdateWith(ctx, func(UpdateProgress) {})
}

// UpdateWith is Update, and calls progress behind each note, and behind the passages of each pass of the encoder. Words are
// updated first, so that notes are found by them while vectors are computed.
func (v *Vault) UpdateWith(ctx context.Context, progress func(UpdateProgress)) (done Updated, err error) {
	v.updating.Lock()
	defer v.updating.Unlock()
	x, err := v.open()
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
	u := updater{v: v, w: w, x: x, done: &done, progress: progress}
	err = u.run(ctx, files)
	if err = errors.Join(err, w.Close()); err != nil {
		return done, err
	}
	info := x.Info()
	done.Notes, done.Passages, done.Vectors = info.Notes, info.Passages, info.Vectors
	return done, nil
}

// updater is an update under way.
type updater struct {
	v        *Vault
	w        *index.Writer
	x        *index.Index
	done     *Updated
	progress func(UpdateProgress)
}

// run updates notes, removes those that are gone, and computes vectors.
func (u *updater) run(ctx context.Context, files []string) error {
	if err := u.remember(); err != nil {
		return err
	}
	present := make(map[string]bool, len(files))
	missing := false
	for i, name := range files {
		if ctx.Err() != nil {
			return ended.By(ctx)
		}
		there, err := u.note(name)
		if err != nil {
			return err
		}
		present[name], missing = there, missing || !there
		u.progress(UpdateProgress{Done: i + 1, Total: len(files)})
	}
	if missing {
		if err := u.checkTree(); err != nil {
			return err
		}
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
	return u.embed(ctx, files)
}

// checkTree returns an error if the directory of the notes is not what it was, such as one on a drive that was unplugged. The index keeps
// its notes then.
func (u *updater) checkTree() error {
	files, err := u.v.tree.Files(func(string) {}) // which were reported
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: the notes have vanished while they were read; the index keeps them until the next update", u.v.dir)
	}
	return err
}

// remember makes the index remember the encoder. Another process may have changed it.
func (u *updater) remember() error {
	if err := u.v.checkEncoder(u.x); err != nil || u.v.options.Embedder == nil {
		return err
	}
	e, err := u.v.encoder()
	if err != nil {
		return err
	}
	return u.w.PutEncoder(e)
}

// note updates a note. there is false for a file that is no note.
func (u *updater) note(name string) (there bool, err error) {
	stamp, err := u.v.tree.Stamp(name)
	hash, known := u.x.Hash(name)
	if err == nil && stamp != "" && known && u.v.stamps[name] == stamp {
		u.done.Reused++
		return true, nil
	}
	text, err := u.v.tree.Read(name)
	if err != nil {
		return u.skip(name, err)
	}
	if known && hash == sha256.Sum256(text) {
		u.done.Reused++
	} else {
		n, err := index.MakeNote(name, text)
		if err != nil {
			return u.skip(name, err)
		}
		if err := u.w.Put(&n); err != nil {
			return true, fmt.Errorf("%s: %w", name, err)
		}
		u.done.Computed++
	}
	if stamp != "" {
		u.v.stamps[name] = stamp
	}
	return true, nil
}

// skip leaves a file out. One that was just removed is not mentioned.
func (u *updater) skip(name string, err error) (bool, error) {
	if !index.IsMissing(err) {
		u.v.options.Notify(fmt.Sprintf("%s is left out: %v", name, err))
		u.done.Skipped++
	}
	return false, nil
}
