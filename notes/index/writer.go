package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// syncBytes is how much is written before it is made durable. A kill loses nothing of it, a power cut may.
	syncBytes = 1 << 20
	// A rewrite leaves out what later records replace, if that is more than half of the file, and more than leastDead.
	leastDead = 1 << 18
	lockWait  = 10 * time.Second
)

// Writer changes an index. Each call that returns without an error has written its record.
type Writer struct {
	x        *Index
	lock     io.Closer
	f        vfs.File
	unsynced int64
	content  []byte
	failed   error
}

// Begin returns a writer, after it has read what other processes have written. It waits for other writers for a
// while. The caller calls Close.
func (x *Index) Begin() (w *Writer, err error) {
	x.writing.Lock()
	defer func() {
		if err != nil {
			x.writing.Unlock()
		}
	}()
	dir, _ := vfs.Split(x.name)
	if err := makeDir(x.fsys, dir); err != nil {
		return nil, err
	}
	lock, err := vfs.WaitLock(x.fsys, x.name+".lock", lockWait)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("another process is writing the index of these notes: %w", err)
	}
	if err != nil {
		return nil, err
	}
	w = &Writer{x: x, lock: lock}
	if err := w.open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return w, nil
}

// makeDir creates a directory and its parents so that they survive a power cut.
func makeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent, _ := vfs.Split(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}

// open opens the file behind its last whole record. A file that cannot be read is replaced.
func (w *Writer) open() (err error) {
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.load(); err != nil {
		return err
	}
	if x.generation == 0 {
		if err := x.create(); err != nil {
			return err
		}
	}
	if w.f, err = vfs.Reopen(x.fsys, x.name); err != nil {
		return err
	}
	size, err := w.f.Size()
	if err == nil && size > x.end {
		if err = w.f.Truncate(x.end); err == nil { // or an old record behind a new one could come back
			err = w.f.Sync()
		}
	}
	if err != nil {
		err = errors.Join(err, w.f.Close())
	}
	return err
}

// create writes a file without records.
func (x *Index) create() error {
	generation := newGeneration()
	if err := vfs.WriteFile(x.fsys, x.name, header(generation)); err != nil {
		return err
	}
	x.generation, x.end = generation, headerBytes
	return nil
}

// newGeneration returns a random number that is not zero.
func newGeneration() uint64 { return rand.Uint64() | 1 }

// write appends a record and takes it over into memory.
func (w *Writer) write(kind uint32, content []byte) error {
	x := w.x
	if w.failed != nil {
		return w.failed // what is behind the end is unknown
	}
	if len(content) > maxContent {
		return fmt.Errorf("a record of %d bytes exceeds the limit of %d", len(content), maxContent)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	record := appendRecord(nil, kind, content)
	if _, w.failed = w.f.WriteAt(record, x.end); w.failed != nil {
		return w.failed
	}
	at := x.end
	x.end += int64(len(record))
	if err := x.apply(kind, content, at); err != nil {
		return err
	}
	if w.unsynced += int64(len(record)); w.unsynced >= syncBytes {
		return w.sync()
	}
	return nil
}

// sync makes what was written durable.
func (w *Writer) sync() error {
	if w.unsynced == 0 {
		return nil
	}
	w.failed, w.unsynced = w.f.Sync(), 0
	return w.failed
}

// Put adds a note, or replaces the one with its path.
func (w *Writer) Put(n *Note) error {
	w.content = appendNote(w.content[:0], n)
	return w.write(noteRecord, w.content)
}

// Remove removes a note.
func (w *Writer) Remove(path string) error {
	if _, known := w.x.Hash(path); !known {
		return nil
	}
	return w.write(removalRecord, appendText(nil, path))
}

// Missing returns the keys of a note's passages that have no vector yet, each once, with their ranges.
func (w *Writer) Missing(path string) (passages []Passage) {
	x := w.x
	x.mu.RLock()
	defer x.mu.RUnlock()
	slot, known := x.byPath[path]
	if !known {
		return nil
	}
	seen := map[Key]bool{}
	n := &x.notes[slot]
	for _, p := range x.passages[n.first : n.first+n.count] {
		if _, has := x.vectors.byKey[p.key]; !has && !seen[p.key] {
			seen[p.key] = true
			passages = append(passages, Passage{Start: int(p.start), End: int(p.end), Words: int(p.words), Key: p.key})
		}
	}
	return passages
}

// PutVectors adds the vectors of passages by the model of Options.
func (w *Writer) PutVectors(keys []Key, vectors [][]float32) error {
	if len(keys) == 0 {
		return nil
	}
	dims := len(vectors[0])
	b := appendText(w.content[:0], w.x.options.Model)
	b = binary.AppendUvarint(b, uint64(dims))
	for i, key := range keys {
		if len(vectors[i]) != dims {
			return fmt.Errorf("the model gives vectors of %d and of %d elements", dims, len(vectors[i]))
		}
		b = append(b, key[:]...)
		var err error
		if b, err = QuantizeVector(b, vectors[i]); err != nil {
			return err
		}
	}
	w.content = b
	return w.write(vectorRecord, b)
}

// PutEncoder makes the index remember an encoder; the zero value makes it forget the one that it remembers. Vectors of other
// encoders leave the file when it is rewritten.
func (w *Writer) PutEncoder(e Encoder) error {
	if w.x.Encoder() == e {
		return nil
	}
	w.content = appendEncoder(w.content[:0], e)
	return w.write(encoderRecord, w.content)
}

// Close makes what was written durable, rewrites the file if most of it is out of date, and lets other writers begin. It does not repeat
// the error of a write.
func (w *Writer) Close() error {
	defer w.x.writing.Unlock()
	var err error
	if w.failed == nil {
		err = w.sync()
	}
	err = errors.Join(err, w.f.Close())
	if err == nil && w.failed == nil && w.x.wasteful() {
		err = w.x.rewrite()
	}
	return errors.Join(err, w.lock.Close())
}

// wasteful reports whether a rewrite pays. Without notes it does not: they may be on a drive that is not here, and come back to
// their vectors.
func (x *Index) wasteful() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.byPath) == 0 {
		return false
	}
	dead := x.dead
	for model, bytes := range x.vectorBytes {
		if x.drops(model) {
			dead += bytes
		}
	}
	return dead > leastDead && 2*dead > x.end
}

// drops reports whether a rewrite leaves out the vectors of a model: those of encoders that are not used any more.
func (x *Index) drops(model string) bool {
	used := cmp.Or(x.encoder.Identity, x.options.Model)
	return used != "" && model != used
}

// rewrite writes a file with the records that are needed, and reads it. The caller has locked the file.
func (x *Index) rewrite() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.fsys.Open(x.name)
	if err != nil {
		return err
	}
	err = vfs.WriteAtomic(x.fsys, x.name, func(out io.Writer) error {
		if _, err := out.Write(header(newGeneration())); err != nil {
			return err
		}
		return x.copyLive(out, f)
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return x.load()
}

// copyLive copies the records that are needed.
func (x *Index) copyLive(out io.Writer, f vfs.File) error {
	keys := map[Key]bool{} // of passages; true: the vector is copied
	for _, slot := range x.byPath {
		n := &x.notes[slot]
		for _, p := range x.passages[n.first : n.first+n.count] {
			keys[p.key] = false
		}
	}
	if x.encoder != (Encoder{}) {
		if _, err := out.Write(appendRecord(nil, encoderRecord, appendEncoder(nil, x.encoder))); err != nil {
			return err
		}
	}
	r := recordReader{f: f, size: x.end, at: headerBytes}
	for {
		kind, content, at, ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		switch kind {
		case noteRecord:
			d := decoder{b: content}
			if slot, known := x.byPath[d.text()]; !known || x.notes[slot].at != at {
				continue
			}
		case vectorRecord:
			if content = x.liveVectors(content, keys); content == nil {
				continue
			}
		default:
			continue
		}
		if _, err := out.Write(appendRecord(nil, kind, content)); err != nil {
			return err
		}
	}
}

// liveVectors returns a record's content with the vectors of passages that are there, nil without any.
func (x *Index) liveVectors(content []byte, keys map[Key]bool) []byte {
	d := decoder{b: content}
	model := d.text()
	dims := int(d.number(MaxDims))
	if d.err != nil || x.drops(model) {
		return nil
	}
	b := binary.AppendUvarint(appendText(nil, model), uint64(dims))
	head := len(b)
	for len(d.b) >= KeyBytes+rowBytes(dims) {
		key := Key(d.take(KeyBytes))
		row := d.take(rowBytes(dims))
		if copied, live := keys[key]; live && !copied {
			keys[key] = true
			b = append(append(b, key[:]...), row...)
		}
	}
	if len(b) == head {
		return nil
	}
	return b
}
