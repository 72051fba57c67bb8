package index

import (
	"errors"
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Room is memory that an index holds in the ledger of its owner. A nil Room counts nothing.
type Room interface {
	// Resize changes the reservation. Growing may be refused, and then changes nothing.
	Resize(bytes int64) error
}

// Options configure an index.
type Options struct {
	Room Room
	// Model names the encoder whose vectors are used, with all that they follow from. "" uses none.
	Model string
	// Notify, if set, receives what a user should know, such as damage that is repaired.
	Notify func(text string)
}

// Index is an open index. Its methods are safe for concurrent use; there is one [Writer] at a time.
type Index struct {
	fsys    vfs.FS
	name    string
	options Options
	writing sync.Mutex // held by a Writer

	mu         sync.RWMutex
	generation uint64 // of the file; 0 before it exists
	end        int64  // of the records that are read
	reserved   int64
	notes      []note
	byPath     map[string]int
	passages   []passage
	postings   postings
	vectors    vectors
	encoder    Encoder
	live       int // passages of notes that are there
	liveWords  int64
	dead       int64 // bytes of records that a rewrite leaves out
	// vectorBytes are the bytes of vectors in the file, by model.
	vectorBytes map[string]int64
}

// note is what memory holds of a note.
type note struct {
	path         string
	hash         [32]byte
	title        string
	tags         []string
	first, count int   // passages
	at, size     int64 // its record
	gone         bool
}

// passage is what memory holds of a passage.
type passage struct {
	note       uint32
	start, end uint32
	words      uint32
	key        Key
}

// Open reads the index in a file, which need not exist.
func Open(fsys vfs.FS, name string, o Options) (*Index, error) {
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	x := &Index{fsys: fsys, name: name, options: o}
	x.reset()
	if err := x.load(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close releases the memory.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reset()
	return x.reserve()
}

// reset forgets everything. The caller holds mu.
func (x *Index) reset() {
	x.generation, x.end, x.dead, x.live, x.liveWords = 0, 0, 0, 0, 0
	x.notes, x.byPath, x.passages, x.postings = nil, map[string]int{}, nil, postings{}
	x.vectors = vectors{model: x.options.Model}
	x.encoder, x.vectorBytes = Encoder{}, map[string]int64{}
}

// held returns about how much memory the index takes.
func (x *Index) held() int64 {
	const perNote, perPassage = 256, 40
	return int64(cap(x.notes))*perNote + int64(cap(x.passages))*perPassage + x.postings.bytes() + x.vectors.bytes()
}

// reserveStep is the least growth that is reserved, and what a note may take before it is.
const reserveStep = 1 << 20

// reserve reserves what the index holds, and a step for what comes next. The caller holds mu.
func (x *Index) reserve() error {
	if x.options.Room == nil {
		return nil
	}
	want := x.held()
	if want > 0 {
		want = (want/reserveStep + 2) * reserveStep
	}
	if want == x.reserved || want < x.reserved && want > 0 {
		return nil
	}
	if err := x.options.Room.Resize(want); err != nil {
		return fmt.Errorf("the index of the notes: %w", err)
	}
	x.reserved = want
	return nil
}

// load reads the records that were written since the last call; all of them after a rewrite. The caller holds mu, or is
// the only one that knows x.
func (x *Index) load() error {
	f, err := openFile(x.fsys, x.name)
	if err != nil {
		return err
	}
	if f == nil {
		x.reset()
		return nil
	}
	return errors.Join(x.loadFrom(f), f.Close())
}

// loadFrom is load for an open file.
func (x *Index) loadFrom(f vfs.File) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	generation, err := readHeader(f)
	if errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrUnsupported) {
		x.options.Notify(err.Error())
		x.reset()
		return nil
	}
	if err != nil {
		return err
	}
	if generation != x.generation || size < x.end {
		x.reset()
		x.generation, x.end = generation, headerBytes
	}
	r := recordReader{f: f, size: size, at: x.end}
	for {
		kind, content, at, ok, err := r.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := x.apply(kind, content, at); err != nil {
			var refused *store.FormatError
			if !errors.As(err, &refused) {
				return err
			}
			r.damaged++
		}
	}
	x.end = r.at
	if r.damaged > 0 {
		x.options.Notify(fmt.Sprintf("%s: %d damaged records are left out; their notes are read again", x.name, r.damaged))
	}
	return x.reserve()
}

// apply takes a record over into memory.
func (x *Index) apply(kind uint32, content []byte, at int64) error {
	size := frameBytes + int64(len(content))
	refuse := func(err error) error {
		return &store.FormatError{Path: x.name, Off: at, Field: "record", Reason: err.Error(), Kind: store.ErrFormat}
	}
	switch kind {
	case noteRecord:
		if err := x.applyNote(content, at, size); err != nil {
			return refuse(err)
		}
	case removalRecord:
		d := decoder{b: content}
		path := d.text()
		if err := d.end(); err != nil {
			return refuse(err)
		}
		x.forget(path)
		x.dead += size
	case vectorRecord:
		if err := x.applyVectors(content); err != nil {
			return refuse(err)
		}
	case encoderRecord:
		e, err := decodeEncoder(content)
		if err != nil {
			return refuse(err)
		}
		x.encoder = e
		x.dead += size
	default:
		return refuse(fmt.Errorf("there is no kind %d", kind))
	}
	if x.held() > x.reserved-reserveStep {
		return x.reserve()
	}
	return nil
}

// applyNote adds a note, which replaces one with the same path.
func (x *Index) applyNote(content []byte, at, size int64) error {
	slot, first := len(x.notes), len(x.passages)
	var live int64
	n, err := decodeNote(content, nil, func(_ *Note, p *Passage) {
		id := uint32(len(x.passages))
		x.passages = append(x.passages, passage{uint32(slot), uint32(p.Start), uint32(p.End), uint32(p.Words), p.Key})
		for _, t := range p.Terms {
			x.postings.add(t.Hash, id, t.Times)
		}
		live += int64(p.Words)
	})
	x.notes = append(x.notes, note{path: n.Path, hash: n.Hash, title: n.Title, tags: n.Tags, first: first, count: len(x.passages) - first, at: at, size: size})
	if err != nil {
		x.notes[slot].gone = true // its postings stay, and are skipped
		return err
	}
	x.forget(n.Path)
	x.byPath[n.Path] = slot
	x.live += x.notes[slot].count
	x.liveWords += live
	return nil
}

// forget removes a note from memory.
func (x *Index) forget(path string) {
	slot, known := x.byPath[path]
	if !known {
		return
	}
	n := &x.notes[slot]
	n.gone = true
	delete(x.byPath, path)
	x.dead += n.size
	x.live -= n.count
	if x.vectors.dims > 0 { // most of them belong to no other note
		x.dead += int64(n.count) * int64(KeyBytes+rowBytes(x.vectors.dims))
	}
	for _, p := range x.passages[n.first : n.first+n.count] {
		x.liveWords -= int64(p.words)
	}
}

// applyVectors adds the vectors of a record, if they are of the model that is used.
func (x *Index) applyVectors(content []byte) error {
	d := decoder{b: content}
	model := d.text()
	x.vectorBytes[model] += int64(len(content))
	if model != x.options.Model || model == "" {
		return d.err
	}
	dims := int(d.number(MaxDims))
	size := rowBytes(dims)
	if d.err != nil || dims == 0 || len(d.b)%(KeyBytes+size) != 0 {
		return errRecord
	}
	if x.vectors.dims != dims {
		x.vectors.reset(x.options.Model, dims)
	}
	for len(d.b) > 0 {
		key := Key(d.take(KeyBytes))
		x.vectors.add(key, d.take(size))
	}
	return nil
}

// Encoder returns the encoder that the index remembers.
func (x *Index) Encoder() Encoder {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.encoder
}

// EncoderIn returns the encoder that the index in a file of the operating system remembers, without opening the index. A file that
// is missing or no index remembers none.
func EncoderIn(name string) (Encoder, error) { return readEncoder(vfs.OSOwn(), name) }

// readEncoder is EncoderIn for any file system.
func readEncoder(fsys vfs.FS, name string) (e Encoder, err error) {
	f, err := openFile(fsys, name)
	if f == nil || err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return e, err
	}
	if _, err := readHeader(f); err != nil {
		if errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrUnsupported) {
			err = nil // opening the index reports it
		}
		return e, err
	}
	for r := (recordReader{f: f, size: size, at: headerBytes}); ; {
		kind, content, _, ok, err := r.next()
		if !ok || err != nil {
			return e, err
		}
		if kind == encoderRecord {
			if found, err := decodeEncoder(content); err == nil {
				e = found
			}
		}
	}
}

// Notes returns the paths and hashes of all notes.
func (x *Index) Notes() map[string][32]byte {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := make(map[string][32]byte, len(x.byPath))
	for path, slot := range x.byPath {
		all[path] = x.notes[slot].hash
	}
	return all
}

// Hash returns the hash of a note, if the index has it.
func (x *Index) Hash(path string) (hash [32]byte, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	slot, known := x.byPath[path]
	if known {
		hash = x.notes[slot].hash
	}
	return hash, known
}

// Info counts what an index holds.
type Info struct {
	Notes, Passages int
	Vectors         int // passages that have a vector
	Bytes           int64
	Held            int64 // about, in memory
}

// Info returns what the index holds.
func (x *Index) Info() Info {
	x.mu.RLock()
	defer x.mu.RUnlock()
	info := Info{Notes: len(x.byPath), Passages: x.live, Bytes: x.end, Held: x.held()}
	for _, slot := range x.byPath {
		n := &x.notes[slot]
		for _, p := range x.passages[n.first : n.first+n.count] {
			if _, has := x.vectors.byKey[p.key]; has {
				info.Vectors++
			}
		}
	}
	return info
}

// Title returns the title that a note gives itself, "" without one.
func (x *Index) Title(path string) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if slot, known := x.byPath[path]; known {
		return x.notes[slot].title
	}
	return ""
}

// OpenFile is Open for a file of the operating system.
func OpenFile(name string, o Options) (*Index, error) { return Open(vfs.OSOwn(), name, o) }
