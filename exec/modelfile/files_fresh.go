package modelfile

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// A stamp that is the same before the first read and behind the last one proves that a model was read from one version of
// its files, if no program is writing to them. One that is may pause between two writes while the model is opened, or
// be within a write whose time the kernel has noted. So files that were changed a moment before are watched until
// they have been left alone for as long.

// freshTime is how long after the opening a model's files are watched.
const freshTime = 2 * time.Second

// Fresh watches files that had just been changed when a model was opened. nil watches none. One goroutine at a time may use it.
type Fresh struct {
	files  []vfs.File
	stamps []vfs.Stamp // of each file
	until  time.Time
}

// CheckOpened returns an error if one of the model's files was changed or replaced since before it was opened. The caller has
// read all that opening reads. Files that had just been changed are watched further. Blocks of a pack have checksums instead.
func (f *Files) CheckOpened() (*Fresh, error) {
	if f.packed != nil || f.stamps == nil {
		return nil, nil
	}
	paths, err := f.SourceFiles()
	if err != nil {
		return nil, err
	}
	w, now, err := watch(f.FS, paths)
	if err == nil || f.stampErr != nil {
		err = f.compareStamps(now)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	f.index.Opened()
	for _, s := range w.stamps {
		if !s.Settled(f.stamped) {
			w.until = f.stamped.Add(freshTime)
			return w, nil
		}
	}
	return nil, w.Close()
}

// Check returns an error if a file was changed since the model was opened. done: nothing need be watched any more.
func (w *Fresh) Check(now time.Time) (done bool, err error) {
	if w == nil {
		return true, nil
	}
	for i, f := range w.files {
		s, _, err := vfs.StampOf(f)
		if err == nil && !s.SameContent(w.stamps[i]) {
			err = store.Changed(f.Name(), store.NoOffset, "content")
		}
		if err != nil {
			return false, err
		}
	}
	return now.After(w.until), nil
}

// Close ends watching.
func (w *Fresh) Close() error {
	if w == nil {
		return nil
	}
	files := w.files
	w.files = nil
	return store.CloseAll(files)
}
