package hub

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store/vfs"
)

// A Store is a directory of models that were pulled. A model is there once its record is: a small file that is written
// after all others. Until then a state file says how much of each file is durable.
type Store struct {
	FS  vfs.FS
	Dir string
	// Checkpoint is how many bytes a power cut may lose; 0 = 64 MiB.
	Checkpoint int64
	// Hashed, if set, receives the SHA-256 and the size of each file that Pull has completed.
	Hashed func(path string, sum [sha256.Size]byte, size int64)
}

// Endings of the files that belong to a model NAME.
const (
	recordSuffix  = ".model.json" // NAME.model.json: the record
	stateSuffix   = ".pull.json"  // NAME.pull.json: how far a download is
	partialSuffix = ".partial"    // FILE.partial: a file that is not complete
	lockSuffix    = ".lock"       // NAME.lock: held while files of the model change
)

// maxRecord limits the size of records and state files.
const maxRecord = 4 << 20

// Errors of a store.
var (
	// ErrExists reports that another model has the name.
	ErrExists = errors.New("there already")
	// ErrNoModel reports a name that no model has.
	ErrNoModel = errors.New("there is no model of that name")
	// ErrNoSpace reports a disk that is too small for a download.
	ErrNoSpace = errors.New("the disk has too little room")
)

// A record describes a model that is complete, or one that is on the way.
type record struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	// Arguments are those of [Remote], of a model that is on the way.
	Arguments string       `json:"arguments,omitempty"`
	Path      string       `json:"path"` // what to open, relative to the directory
	Files     []storedFile `json:"files"`
	// Made are the files of which the model was made, if they were replaced by a pack.
	Made []storedFile `json:"made,omitempty"`
	// Pack says how far a pack is that is made while the files arrive; nil without one.
	Pack *packState `json:"pack,omitempty"`
}

// A storedFile is a file of a model.
type storedFile struct {
	Path         string `json:"path"`
	Size         int64  `json:"size"`
	Digest       string `json:"digest,omitempty"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	// Durable is how many bytes from the beginning are known to be on the disk.
	Durable int64 `json:"durable,omitempty"`
	// Hash is the state of the SHA-256 of these bytes, of files that are stored in pieces.
	Hash []byte `json:"hash,omitempty"`
}

// isOf reports whether the file here is the one on the server, as far as both say.
func (f *storedFile) isOf(r *RemoteFile) bool {
	if f.Path != r.Path || f.Size != r.Size || f.Digest != r.Digest {
		return false
	}
	return r.Digest != "" || f.ETag == r.ETag && f.LastModified == r.LastModified && (r.ETag != "" || r.LastModified != "")
}

// readRecord reads a record or a state file. It refuses paths that leave the directory.
func (s *Store) readRecord(file string) (*record, error) {
	name := vfs.Join(s.Dir, file)
	data, err := vfs.ReadFile(s.FS, name, maxRecord)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range append([]storedFile{{Path: r.Path}, {Path: r.Name}}, r.Files...) {
		if err := checkPath(f.Path); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return &r, nil
}

func (s *Store) writeRecord(file string, r *record) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return vfs.WriteFile(s.FS, vfs.Join(s.Dir, file), append(data, '\n'))
}

// lock excludes other processes from the files of a model.
func (s *Store) lock(name string) (io.Closer, error) {
	if err := s.FS.MkdirAll(s.Dir); err != nil {
		return nil, err
	}
	lock, err := vfs.Lock(s.FS, vfs.Join(s.Dir, name+lockSuffix))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: another process downloads or deletes this model now: %w", name, err)
	}
	return lock, err
}

// Missing returns how many bytes of a model are still to be downloaded, as far as the state here says.
func (s *Store) Missing(r *Remote) int64 {
	missing := r.Bytes()
	if state, err := s.readRecord(r.Name + stateSuffix); err == nil {
		for i := range r.Files {
			missing -= state.durable(&r.Files[i])
		}
	}
	return missing
}

// durable returns how many bytes of a file are here.
func (r *record) durable(f *RemoteFile) int64 {
	for i := range r.Files {
		if r.Files[i].isOf(f) && r.Files[i].Durable <= f.Size {
			return max(r.Files[i].Durable, 0)
		}
	}
	return 0
}

// Has returns the model that a Remote would become, if it was pulled. It returns ErrExists if another model has the name.
func (s *Store) Has(r *Remote) (Model, bool, error) {
	have, err := s.readRecord(r.Name + recordSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Model{}, false, nil
	case err != nil:
		return Model{}, false, err
	case have.Source != r.Source && !have.isOf(r, false):
		return Model{}, false, fmt.Errorf("%s is %w, from %s; llmrun models rm %s deletes it, and --name gives this one another name", r.Name, ErrExists, have.Source, r.Name)
	case !have.isOf(r, have.Source == r.Source):
		return Model{}, false, fmt.Errorf("%s is %w, but %s has other files now; llmrun models rm %s deletes it", r.Name, ErrExists, r.Source, r.Name)
	}
	m, err := s.model(have)
	return m, err == nil, err
}

// isOf reports whether a model was made of the files on the server. trusting takes files of which neither side says
// more than their length for the same.
func (r *record) isOf(remote *Remote, trusting bool) bool {
	files := r.Files
	if r.Made != nil {
		files = r.Made
	}
	for i := range remote.Files {
		f := &remote.Files[i]
		known := slices.ContainsFunc(files, func(have storedFile) bool {
			return have.isOf(f) || trusting && f.Digest == "" && f.ETag == "" && f.LastModified == "" && have.Path == f.Path && have.Size == f.Size
		})
		if !known {
			return false
		}
	}
	return true
}

// Pull downloads a model, and returns it once all of it is checked and durable. It goes on where an earlier call
// stopped. progress receives the bytes that are here of all files.
func (s *Store) Pull(ctx context.Context, c *Client, r *Remote, progress func(done, total int64)) (_ Model, err error) {
	if err := r.check(); err != nil {
		return Model{}, err
	}
	lock, err := s.lock(r.Name)
	if err != nil {
		return Model{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if m, has, err := s.Has(r); has || err != nil {
		if has { // a call that was killed between the record and this
			err = s.tidy(r.Name)
		}
		return m, err
	}
	p := &pull{store: s, client: c, remote: r, progress: progress}
	if err := p.begin(); err != nil {
		return Model{}, err
	}
	for i := range r.Files {
		if err := p.file(ctx, i); err != nil {
			return Model{}, err
		}
	}
	return p.finish()
}

// A pull is the download of a model.
type pull struct {
	store    *Store
	client   *Client
	remote   *Remote
	state    *record
	done     int64 // bytes of the files before the one under way
	inSteps  bool  // a pack is made meanwhile
	progress func(done, total int64)
}

func (p *pull) stateFile() string { return p.remote.Name + stateSuffix }

// begin reads the state of an earlier call, and discards what is of other files.
func (p *pull) begin() error {
	s, r := p.store, p.remote
	if err := s.sweep(r.Name); err != nil {
		return err
	}
	before, err := s.readRecord(p.stateFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		before = &record{}
	case err != nil:
		before = &record{} // an unreadable state says nothing about what is durable
		p.client.notify("%v: the download begins again", err)
	case before.Source != r.Source && !slices.ContainsFunc(r.Files, func(f RemoteFile) bool { return before.durable(&f) > 0 }):
		return fmt.Errorf("%s is on its way from %s; llmrun models rm %s deletes what is here of it, and --name gives this one another name", r.Name, before.Source, r.Name)
	case before.Pack != nil && !p.inSteps:
		return fmt.Errorf("%s is on its way as a pack: give --pack, too, or delete what is here of it with llmrun models rm %s", r.Name, r.Name)
	}
	p.state = &record{Name: r.Name, Source: r.Source, Arguments: r.Arguments, Path: r.Path, Pack: before.Pack}
	for i := range r.Files {
		f := &r.Files[i]
		durable := before.durable(f)
		if durable == 0 && slices.ContainsFunc(before.Files, func(b storedFile) bool { return b.Path == f.Path && b.Durable > 0 }) {
			p.client.notify("%s has changed on the server: its download begins again", f.Path)
		}
		stored := storedFile{Path: f.Path, Size: f.Size, Digest: f.Digest, ETag: f.ETag, LastModified: f.LastModified, Durable: durable}
		if at := slices.IndexFunc(before.Files, func(b storedFile) bool { return b.Path == f.Path }); at >= 0 && durable > 0 {
			stored.Hash = before.Files[at].Hash
		}
		p.state.Files = append(p.state.Files, stored)
	}
	if p.inSteps {
		return s.writeRecord(p.stateFile(), p.state)
	}
	if err := p.checkSpace(); err != nil {
		return err
	}
	return s.writeRecord(p.stateFile(), p.state)
}

// spareSpace stays free on the disk beside a download.
const spareSpace = 16 << 20

// checkSpace refuses a download for which the disk is too small.
func (p *pull) checkSpace() error {
	missing := p.remote.Bytes()
	for _, f := range p.state.Files {
		missing -= f.Durable
	}
	if missing == 0 {
		return nil
	}
	return p.store.CheckSpace(missing)
}

// CheckSpace refuses to store bytes for which the disk has too little room.
func (s *Store) CheckSpace(bytes int64) error {
	if free, known := vfs.FreeSpaceFor(s.FS, s.Dir); known && free < bytes+spareSpace {
		return fmt.Errorf("%s: %w: %d MiB are needed, and %d MiB are free", s.Dir, ErrNoSpace, (bytes+spareSpace)>>20, free>>20)
	}
	return nil
}

// sweep deletes the temporary files that a killed process left of the model's small files.
func (s *Store) sweep(name string) error {
	entries, err := s.FS.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		for _, suffix := range []string{recordSuffix, stateSuffix} {
			if strings.HasPrefix(e.Name, name+suffix+vfs.TempMark) {
				err = errors.Join(err, s.FS.Remove(vfs.Join(s.Dir, e.Name)))
			}
		}
	}
	return err
}

// file downloads a file of the model, unless it is complete.
func (p *pull) file(ctx context.Context, i int) (err error) {
	f, state := &p.remote.Files[i], &p.state.Files[i]
	final := vfs.Join(p.store.Dir, f.Path)
	partial := final + partialSuffix
	report := func(at int64) {
		if p.progress != nil {
			p.progress(p.done+at, p.remote.Bytes())
		}
	}
	complete, err := p.isComplete(final, partial, state)
	if err != nil {
		return err
	}
	if !complete {
		sum, err := p.transfer(ctx, f, state, partial, report)
		if err != nil {
			return err
		}
		if err := p.store.FS.Rename(partial, final); err != nil {
			return err
		}
		dir, _ := vfs.Split(final)
		if err := p.store.FS.SyncDir(dir); err != nil {
			return err
		}
		if p.store.Hashed != nil {
			p.store.Hashed(final, sum, f.Size)
		}
	}
	p.done += f.Size
	report(0)
	return nil
}

// isComplete reports whether a file was renamed to its final name by an earlier call. It refuses to replace a file that
// was not pulled.
func (p *pull) isComplete(final, partial string, state *storedFile) (bool, error) {
	info, err := p.store.FS.Stat(final)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, unfinished := p.store.FS.Stat(partial)
	if !info.IsDir && info.Size == state.Size && state.Durable == state.Size && errors.Is(unfinished, fs.ErrNotExist) {
		return true, nil
	}
	return false, fmt.Errorf("%s is %w, and llmrun has not pulled it; move it, or give --name", final, ErrExists)
}

// transfer downloads a file to its partial name, and checks it. It returns the SHA-256 of what it has written.
func (p *pull) transfer(ctx context.Context, f *RemoteFile, state *storedFile, partial string, report func(int64)) (sum [sha256.Size]byte, err error) {
	d := &download{client: p.client, file: f, every: p.store.Checkpoint, report: report}
	if d.every <= 0 {
		d.every = defaultCheckpoint
	}
	d.save = func(durable int64) error {
		state.Durable, state.ETag, state.LastModified = durable, f.ETag, f.LastModified
		return p.store.writeRecord(p.stateFile(), p.state)
	}
	if d.out, err = p.open(partial, state); err != nil {
		return sum, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, d.out.Close())
		}
	}()
	if err := d.beginHashes(); err != nil {
		return sum, err
	}
	if err := d.resume(ctx, state.Durable); err != nil {
		return sum, err
	}
	if err := d.run(ctx); err != nil {
		return sum, explainFull(err, p.store.Dir)
	}
	closed = true
	if err := d.out.Close(); err != nil {
		return sum, err
	}
	if err := d.verify(); err != nil {
		return sum, errors.Join(fmt.Errorf("%w; what was downloaded of it is deleted", err), p.discard(state, partial))
	}
	return [sha256.Size]byte(d.sum.Sum(nil)), nil
}

// explainFull says what helps against a full disk.
func explainFull(err error, dir string) error {
	if vfs.IsDiskFull(err) {
		return fmt.Errorf("%w; free space in %s, and give the same command: it continues", err, dir)
	}
	return err
}

// discard deletes a partial file whose content is wrong.
func (p *pull) discard(state *storedFile, partial string) error {
	state.Durable = 0
	return errors.Join(p.store.writeRecord(p.stateFile(), p.state), p.store.FS.Remove(partial), p.forgetEmpty())
}

// forgetEmpty deletes the state of a download of which nothing is left.
func (p *pull) forgetEmpty() error {
	if slices.ContainsFunc(p.state.Files, func(f storedFile) bool { return f.Durable > 0 }) {
		return nil
	}
	return p.store.removeIfThere(p.stateFile())
}

// open opens a partial file, and truncates what is not known to be durable. A file that is not there begins again.
func (p *pull) open(partial string, state *storedFile) (vfs.File, error) {
	fsys := p.store.FS
	if state.Durable > 0 {
		f, err := vfs.Reopen(fsys, partial)
		if err == nil {
			size, err := f.Size()
			if err == nil && size >= state.Durable {
				err = f.Truncate(state.Durable)
			} else if err == nil {
				p.client.notify("%s is shorter than it was: its download begins again", partial)
				state.Durable = 0
				err = f.Truncate(0)
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		state.Durable = 0
	}
	dir, _ := vfs.Split(partial)
	if dir != p.store.Dir {
		if err := errors.Join(fsys.MkdirAll(dir), fsys.SyncDir(p.store.Dir)); err != nil {
			return nil, err
		}
	}
	f, err := fsys.Create(partial)
	if err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(dir); err != nil { // a state must not name bytes of a file that a power cut removes
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// resume hashes what is here of the file. The bytes are read again, so that damage of the disk is found too.
func (d *download) resume(ctx context.Context, durable int64) error {
	buffer := make([]byte, transferBytes)
	for d.at < durable {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buffer[:min(int64(len(buffer)), durable-d.at)]
		if _, err := d.out.ReadAt(part, d.at); err != nil {
			return err
		}
		d.addHashes(part)
		d.at += int64(len(part))
	}
	d.synced = durable
	d.report(d.at)
	return nil
}

// finish writes the record of a model whose files are complete.
func (p *pull) finish() (Model, error) {
	s := p.store
	done := *p.state
	done.Arguments, done.Files = "", slices.Clone(p.state.Files)
	for i := range done.Files {
		done.Files[i].Durable = 0
	}
	if err := s.writeRecord(p.remote.Name+recordSuffix, &done); err != nil {
		return Model{}, err
	}
	if err := s.removeIfThere(p.stateFile()); err != nil {
		return Model{}, err
	}
	return s.model(&done)
}

// removeIfThere deletes a file of the directory.
func (s *Store) removeIfThere(file string) error {
	if err := s.FS.Remove(vfs.Join(s.Dir, file)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// model describes a model of the store.
func (s *Store) model(r *record) (Model, error) {
	m := Model{Name: r.Name, Path: vfs.Join(s.Dir, r.Path), Source: SourcePulled, From: r.Source}
	for _, f := range r.Files {
		m.Bytes += f.Size
	}
	if _, err := s.FS.Stat(m.Path); err != nil {
		return m, fmt.Errorf("%s: %w; llmrun models rm %s, and pull it again", r.Name, err, r.Name)
	}
	return m, nil
}

// An Unfinished is a model of which a part was pulled.
type Unfinished struct {
	Name, From  string // From is what pull takes to continue
	Done, Bytes int64
}

// Models lists the models, and those that are on the way. A record that cannot be read is an error beside the others.
func (s *Store) Models() (models []Model, unfinished []Unfinished, err error) {
	entries, err := s.FS.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var failed error
	for _, e := range entries {
		name, isRecord := strings.CutSuffix(e.Name, recordSuffix)
		if !isRecord {
			if _, isState := strings.CutSuffix(e.Name, stateSuffix); isState {
				if r, err := s.readRecord(e.Name); err == nil {
					unfinished = append(unfinished, r.unfinished())
				} else {
					failed = errors.Join(failed, err)
				}
			}
			continue
		}
		r, err := s.readRecord(e.Name)
		if err == nil && r.Name != name {
			err = fmt.Errorf("%s: it describes %s", vfs.Join(s.Dir, e.Name), r.Name)
		}
		var m Model
		if err == nil {
			m, err = s.model(r)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		models = append(models, m)
	}
	unfinished = slices.DeleteFunc(unfinished, func(u Unfinished) bool {
		return slices.ContainsFunc(models, func(m Model) bool { return m.Name == u.Name })
	})
	return models, unfinished, failed
}

func (r *record) unfinished() Unfinished {
	u := Unfinished{Name: r.Name, From: withArguments(r.Source, r.Arguments)}
	for _, f := range r.Files {
		u.Done, u.Bytes = u.Done+f.Durable, u.Bytes+f.Size
	}
	return u
}

// Remove deletes a model that was pulled, or what is here of one, and returns how many bytes that frees.
func (s *Store) Remove(name string) (freed int64, err error) {
	if err := CheckName(name); err != nil {
		return 0, err
	}
	if _, err := s.FS.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w", name, ErrNoModel)
	}
	lock, err := s.lock(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	found := false
	for _, suffix := range []string{recordSuffix, stateSuffix} {
		r, err := s.readRecord(name + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return freed, err
		}
		found = true
		// The record goes first: what remains after a crash is not taken for a model.
		if err := s.FS.Remove(vfs.Join(s.Dir, name+suffix)); err != nil {
			return freed, err
		}
		if err := s.FS.SyncDir(s.Dir); err != nil {
			return freed, err
		}
		if r.Pack != nil { // it may be complete, and its record missing
			r.Files = append(r.Files, storedFile{Path: name + packSuffix})
		}
		n, err := s.removeFiles(r)
		freed += n
		if err != nil {
			return freed, err
		}
	}
	if !found {
		return 0, fmt.Errorf("%s: %w", name, ErrNoModel)
	}
	return freed, s.sweep(name)
}

// removeFiles deletes the files of a model, complete or not, and directories that they leave empty.
func (s *Store) removeFiles(r *record) (freed int64, err error) {
	dirs := map[string]bool{}
	for _, f := range r.Files {
		if r.Pack != nil && isStreamed(f.Path, f.Digest) {
			continue // it is in pieces, and what has its name is the user's
		}
		for _, name := range []string{f.Path, f.Path + partialSuffix} {
			full := vfs.Join(s.Dir, name)
			info, failed := s.FS.Stat(full)
			if failed != nil || info.IsDir {
				continue
			}
			if failed := s.FS.Remove(full); failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			freed += info.Size
		}
		if dir := path.Dir(f.Path); dir != "." {
			dirs[dir] = true
		}
	}
	if r.Pack != nil {
		n, failed := s.removePieces(r)
		freed, err = freed+n, errors.Join(err, failed)
	}
	for dir := range dirs {
		_ = s.FS.Remove(vfs.Join(s.Dir, dir)) // it may hold files of the user
	}
	return freed, err
}

// Replace makes a pack, which was made of the model's files, the model, and deletes the files.
func (s *Store) Replace(name, pack string) (_ Model, err error) {
	lock, err := s.lock(name)
	if err != nil {
		return Model{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r, err := s.readRecord(name + recordSuffix)
	if err != nil {
		return Model{}, err
	}
	if err := checkPath(pack); err != nil {
		return Model{}, err
	}
	info, err := s.FS.Stat(vfs.Join(s.Dir, pack))
	if err != nil {
		return Model{}, err
	}
	packed := storedFile{Path: pack, Size: info.Size}
	replaced := *r
	replaced.Path, replaced.Made = pack, r.Files
	// Until the files are deleted, the record names them too, so that rm deletes what a crash left.
	replaced.Files = append([]storedFile{packed}, r.Files...)
	if err := s.writeRecord(name+recordSuffix, &replaced); err != nil {
		return Model{}, err
	}
	if _, err := s.removeFiles(r); err != nil {
		return Model{}, err
	}
	replaced.Files = []storedFile{packed}
	if err := s.writeRecord(name+recordSuffix, &replaced); err != nil {
		return Model{}, err
	}
	return s.model(&replaced)
}
