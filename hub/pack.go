package hub

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/llmrun/llmrun/store/vfs"
)

// A Packer makes a pack of a model while its files arrive.
type Packer interface {
	// Bytes returns about the size of the pack.
	Bytes() (int64, error)
	// ID identifies the plan: only a Packer with the same one can continue what another one wrote.
	ID() [sha256.Size]byte
	// Reads lists what the pack is made of: bytes of files, and PackStep.Body when they are in the pack.
	Reads(yield func(body int64, file string, off, size int64) bool)
	// Write writes the pack to a file, which is durable and complete when it returns nil.
	Write(ctx context.Context, to PackFile, o PackSteps) error
	Close() error
}

// A PackFile is a file that a pack is written to.
type PackFile interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// A PackStep says how far a pack is written.
type PackStep struct {
	Body int64  `json:"body"` // bytes of tensors
	File int64  `json:"file"` // bytes of the pack
	Sum  uint32 `json:"sum"`  // of them
}

// PackSteps is what a Packer writes with.
type PackSteps struct {
	From       PackStep
	Every      int64 // bytes between two steps
	Checkpoint func(PackStep) error
	// Hashes returns the SHA-256 of the files of weights when all of them have arrived.
	Hashes func(context.Context) (map[string]FileHash, error)
}

// A FileHash is the SHA-256 and the size of a file.
type FileHash struct {
	SHA256 [sha256.Size]byte
	Size   int64
}

// packState says how far a pack is that is made while its files arrive.
type packState struct {
	ID    string   `json:"id"`
	Piece int64    `json:"piece"` // bytes of the pieces of files
	Step  PackStep `json:"step"`
	Hash  []byte   `json:"hash,omitempty"` // state of the SHA-256 of the pack
}

// Errors of PullPack after which Pull and an import help.
var (
	// ErrNotInSteps reports a model of which no pack can be made while its files arrive.
	ErrNotInSteps = errors.New("the pack cannot be made while the model is downloaded")
	// ErrPackStart is what Packer.Write returns for a file that does not begin with what it wrote of the pack.
	ErrPackStart = errors.New("what is here of the pack is damaged")
	// ErrDiscarded reports that nothing is kept of a download.
	ErrDiscarded = errors.New("what was downloaded is deleted, and the same command begins again")
	// errBegun reports a file that changed after a part of it was put into the pack.
	errBegun = errors.New("the file has changed on the server")
)

const (
	// defaultPiece is the size of the pieces of files: what is on the disk twice at most, for each place that is read.
	defaultPiece = 32 << 20
	pieceMark    = ".piece"
)

// PullPack downloads a model as Pull does, but stores its files of weights in pieces, each of which is deleted when it
// is in the pack that the Packer makes meanwhile. plan receives the files; it reads from the server what has not arrived.
// check verifies the finished pack.
func (s *Store) PullPack(ctx context.Context, c *Client, r *Remote, plan func(fs.FS) (Packer, error), check func(path string) error, progress func(done, total int64)) (_ Model, err error) {
	if err := r.check(); err != nil {
		return Model{}, err
	}
	lock, err := s.lock(r.Name)
	if err != nil {
		return Model{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if m, has, err := s.Has(r); has || err != nil {
		if has {
			err = s.tidy(r.Name)
		}
		return m, err
	}
	p := &packPull{pull: pull{store: s, client: c, remote: r, progress: progress}, pack: r.Name + packSuffix, use: map[string][]int64{}, made: map[string]int64{}, hashes: map[string]FileHash{}}
	p.changed.L = &p.mu
	if err := p.begin(); err != nil {
		return Model{}, err
	}
	if err := p.plan(ctx, plan); err != nil {
		return Model{}, err
	}
	defer func() { err = errors.Join(err, p.packer.Close()) }()
	if err := p.write(ctx); err != nil {
		return Model{}, explainFull(err, s.Dir)
	}
	if err := check(vfs.Join(s.Dir, p.pack)); err != nil {
		if ctx.Err() != nil {
			return Model{}, context.Cause(ctx)
		}
		return Model{}, p.discarded(err)
	}
	return p.finishPack()
}

// packPull is a pull of which a pack is made.
type packPull struct {
	pull
	packer Packer
	pack   string // name of the pack
	out    *hashedFile
	files  *arrivingFS

	use  map[string][]int64 // PackStep.Body after which a piece of a file is not read any more, 0 without reads
	made map[string]int64   // end of what is in the pack of a file, by an earlier call

	mu      sync.Mutex // guards state, and what follows
	changed sync.Cond
	hashes  map[string]FileHash // of files that have arrived
	ended   bool                // no more arrives
	failed  error               // why
}

// isStreamed reports whether PullPack stores a file in pieces: one of weights. Small ones of a repository are stored as a
// whole.
func (f *RemoteFile) isStreamed() bool { return isStreamed(f.Path, f.Digest) }

func isStreamed(path, digest string) bool {
	return (strings.HasSuffix(path, ".gguf") || strings.HasSuffix(path, ".safetensors")) && !strings.HasPrefix(digest, "git:")
}

// begin reads the state of an earlier call.
func (p *packPull) begin() error {
	before, err := p.store.readRecord(p.stateFile())
	if err == nil && before.Pack == nil && slices.ContainsFunc(before.Files, func(f storedFile) bool { return f.Durable > 0 }) {
		return fmt.Errorf("%w: its download began without", ErrNotInSteps)
	}
	if _, err := p.store.FS.Stat(vfs.Join(p.store.Dir, p.pack)); err == nil && (before == nil || before.Pack == nil) {
		return fmt.Errorf("%s is %w, and llmrun has not pulled it; move it, or give --name", vfs.Join(p.store.Dir, p.pack), ErrExists)
	}
	p.inSteps = true
	return p.pull.begin()
}

// plan downloads the small files, plans the pack, and compares the plan with that of an earlier call.
func (p *packPull) plan(ctx context.Context, plan func(fs.FS) (Packer, error)) (err error) {
	remote := p.client.Open(ctx, p.remote).(*remoteFS)
	p.files = &arrivingFS{remoteFS: remote, pull: p, planning: true}
	for i := range p.remote.Files {
		if f := &p.remote.Files[i]; !f.isStreamed() {
			if err := p.file(ctx, i); err != nil {
				return err
			}
		}
	}
	if p.packer, err = plan(p.files); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", ErrNotInSteps, err)
	}
	p.files.planning = false
	if err := p.continuePack(); err != nil {
		return errors.Join(err, p.packer.Close())
	}
	return nil
}

// continuePack makes the state that of this plan, and discards what an earlier call left of another one.
func (p *packPull) continuePack() error {
	id := p.packer.ID()
	now := &packState{ID: hex.EncodeToString(id[:]), Piece: defaultPiece}
	if p.store.Checkpoint > 0 {
		now.Piece = p.store.Checkpoint
	}
	was := p.state.Pack
	if was != nil && was.ID == now.ID && was.Piece > 0 && was.Piece <= maxFileBytes && was.Step.Body >= 0 && was.Step.File >= 0 {
		now = was
	}
	p.state.Pack = now
	p.plannedUse()
	if was != nil && (was != now || !p.isThere()) {
		p.client.notify("what is here of %s is incomplete, or was of another plan: its download begins again", p.remote.Name)
		if err := p.discardAll(); err != nil {
			return err
		}
	}
	if err := p.checkPackSpace(); err != nil {
		return err
	}
	for i := range p.state.Files {
		p.files.forget(p.state.Files[i].Path, p.state.Files[i].Durable)
	}
	return errors.Join(p.store.writeRecord(p.stateFile(), p.state), p.sweepPieces())
}

// plannedUse notes when each piece is not needed any more.
func (p *packPull) plannedUse() {
	piece := p.state.Pack.Piece
	for i := range p.state.Files {
		p.use[p.state.Files[i].Path] = make([]int64, (p.state.Files[i].Size+piece-1)/piece)
	}
	p.packer.Reads(func(body int64, file string, off, size int64) bool {
		use := p.use[file]
		for k := off / piece; k*piece < off+size && k < int64(len(use)); k++ {
			use[k] = max(use[k], body)
		}
		if body <= p.state.Pack.Step.Body {
			p.made[file] = max(p.made[file], off+size)
		}
		return true
	})
}

// isThere reports whether the pieces that are still read, and the beginning of the pack, are on the disk, and the pack
// was made of these files: of a file that is another one now nothing is durable.
func (p *packPull) isThere() bool {
	s, pack := p.store, p.state.Pack
	if _, err := s.FS.Stat(vfs.Join(s.Dir, p.pack)); err == nil {
		return true // all of it is
	}
	if pack.Step.File > 0 {
		info, err := s.FS.Stat(vfs.Join(s.Dir, p.pack+partialSuffix))
		if err != nil || info.Size < pack.Step.File {
			return false
		}
	}
	for i := range p.state.Files {
		f := &p.state.Files[i]
		if f.Durable < p.made[f.Path] {
			return false
		}
		for k := int64(0); p.remote.Files[i].isStreamed() && k*pack.Piece < f.Durable; k++ {
			info, err := s.FS.Stat(p.pieceName(f.Path, k))
			if p.use[f.Path][k] > pack.Step.Body && (err != nil || info.Size < min(pack.Piece, f.Durable-k*pack.Piece)) {
				return false
			}
		}
	}
	return true
}

// checkPackSpace refuses a download for which the disk is too small.
func (p *packPull) checkPackSpace() error {
	const pieces = 4 // that are on the way, or in the pack too
	need, err := p.packer.Bytes()
	if err != nil {
		return err
	}
	need = max(need, p.remote.Bytes()) + pieces*p.state.Pack.Piece - p.state.Pack.Step.File
	names, err := p.pieces()
	if err != nil {
		return err
	}
	for _, info := range names {
		need -= info.Size
	}
	return p.store.CheckSpace(max(need, 0))
}

// pieceName returns the name of a piece of a file.
func (p *packPull) pieceName(file string, k int64) string {
	return vfs.Join(p.store.Dir, fmt.Sprintf("%s%s%06d", file, pieceMark, k))
}

// pieces lists the pieces that are on the disk by their names.
func (p *packPull) pieces() (map[string]vfs.Info, error) { return p.store.pieces(p.state) }

// pieces lists the pieces of a model's files that are on the disk by their names.
func (s *Store) pieces(r *record) (map[string]vfs.Info, error) {
	found := map[string]vfs.Info{}
	for _, f := range r.Files {
		dir, base := vfs.Split(vfs.Join(s.Dir, f.Path))
		entries, err := s.FS.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if rest, ok := strings.CutPrefix(e.Name, base+pieceMark); ok && len(rest) >= 6 && strings.Trim(rest, "0123456789") == "" {
				found[vfs.Join(dir, e.Name)] = e
			}
		}
	}
	return found, nil
}

// sweepPieces deletes the pieces that are in the pack, and those that have not arrived. The caller holds the mutex, or is
// alone.
func (p *packPull) sweepPieces() error {
	names, err := p.pieces()
	if err != nil {
		return err
	}
	pack := p.state.Pack
	for i := range p.state.Files {
		f := &p.state.Files[i]
		for k, body := range p.use[f.Path] {
			name := p.pieceName(f.Path, int64(k))
			if _, there := names[name]; !there {
				continue
			}
			begin, end := int64(k)*pack.Piece, min(int64(k+1)*pack.Piece, f.Size)
			if begin >= f.Durable && !p.files.running || end <= f.Durable && body <= pack.Step.Body {
				if err := p.store.FS.Remove(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// write downloads the files and writes the pack of them at the same time.
func (p *packPull) write(ctx context.Context) (err error) {
	s, final := p.store, vfs.Join(p.store.Dir, p.pack)
	if _, err := s.FS.Stat(final); err == nil {
		return nil // an earlier call has renamed the complete pack
	}
	if err := p.openPack(final + partialSuffix); err != nil {
		return err
	}
	p.files.running = true
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var arriving sync.WaitGroup
	arriving.Go(func() { p.end(p.arrive(ctx)) })
	stop := context.AfterFunc(ctx, func() { p.end(context.Cause(ctx)) })
	defer stop()
	err = p.packer.Write(ctx, p.out, PackSteps{From: p.state.Pack.Step, Every: p.state.Pack.Piece, Checkpoint: p.checkpoint, Hashes: p.allHashes})
	cancel(err)
	arriving.Wait()
	err = errors.Join(cancelled(whole, p.cause(err)), p.out.Close())
	if errors.Is(err, errBegun) || errors.Is(err, ErrDigest) || errors.Is(err, ErrPackStart) {
		return p.discarded(err)
	}
	if err != nil {
		return err
	}
	if err := s.FS.Rename(final+partialSuffix, final); err != nil {
		return err
	}
	if err := s.FS.SyncDir(s.Dir); err != nil {
		return err
	}
	if info, err := s.FS.Stat(final); err == nil && s.Hashed != nil && info.Size == p.out.at {
		s.Hashed(final, [sha256.Size]byte(p.out.sum.Sum(nil)), info.Size)
	}
	return nil
}

// cause returns why the pack was not written: the failure of the download, if that is the reason.
func (p *packPull) cause(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.failed != nil && errors.Is(err, p.failed) {
		return p.failed
	}
	return err
}

// openPack opens the pack that is on the way.
func (p *packPull) openPack(name string) error {
	p.out = &hashedFile{sum: sha256.New()}
	pack, fsys := p.state.Pack, p.store.FS
	var err error
	if pack.Step.File > 0 {
		if p.out.at = pack.Step.File; p.out.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(pack.Hash) != nil {
			p.out.at = unknownHash
		}
		p.out.File, err = vfs.Reopen(fsys, name)
		return err
	}
	if p.out.File, err = fsys.Create(name); err != nil {
		return err
	}
	if err := fsys.SyncDir(p.store.Dir); err != nil {
		return errors.Join(err, p.out.Close())
	}
	return nil
}

// checkpoint saves how far the pack is, and deletes the pieces behind it.
func (p *packPull) checkpoint(step PackStep) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Pack.Step, p.state.Pack.Hash = step, nil
	if p.out.at == step.File {
		var err error
		if p.state.Pack.Hash, err = p.out.sum.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
			return err
		}
	}
	if err := p.store.writeRecord(p.stateFile(), p.state); err != nil {
		return err
	}
	return p.sweepPieces()
}

// arrive downloads the files of weights.
func (p *packPull) arrive(ctx context.Context) error {
	for i := range p.remote.Files {
		f, state := &p.remote.Files[i], &p.state.Files[i]
		if !f.isStreamed() {
			continue
		}
		sum, err := p.stream(ctx, f, state)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.hashes[f.Path] = FileHash{sum, f.Size}
		p.mu.Unlock()
		p.done += f.Size
	}
	return nil
}

// stream downloads a file in pieces, and checks it.
func (p *packPull) stream(ctx context.Context, f *RemoteFile, state *storedFile) (sum [sha256.Size]byte, err error) {
	out := &pieceFile{pull: p, file: f, open: map[int64]vfs.File{}}
	defer func() { err = errors.Join(err, out.Close()) }()
	d := &download{client: p.client, file: f, out: out, every: p.state.Pack.Piece, at: state.Durable, synced: state.Durable, report: func(at int64) {
		if p.progress != nil {
			p.progress(p.done+at, p.remote.Bytes())
		}
	}}
	d.save = func(durable int64) error {
		hashed, err := d.sum.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		state.Durable, state.ETag, state.LastModified, state.Hash = durable, f.ETag, f.LastModified, hashed
		if err := p.store.writeRecord(p.stateFile(), p.state); err != nil {
			return err
		}
		p.changed.Broadcast()
		return p.sweepPieces()
	}
	if err := d.beginHashes(); err != nil {
		return sum, err
	}
	if state.Durable > 0 {
		if err := d.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(state.Hash); err != nil {
			return sum, errors.Join(errBegun, err)
		}
	}
	d.report(d.at)
	if err := d.run(ctx); err != nil {
		return sum, err
	}
	if err := d.verify(); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(d.sum.Sum(nil)), nil
}

// end wakes up who waits for bytes: no more arrive.
func (p *packPull) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended, p.failed = true, err
	}
	p.changed.Broadcast()
}

// allHashes waits for all files.
func (p *packPull) allHashes(context.Context) (map[string]FileHash, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended {
		p.changed.Wait()
	}
	return p.hashes, p.failed
}

// await waits until the bytes of a file before end have arrived.
func (p *packPull) await(file string, end int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.state.Files, func(f storedFile) bool { return f.Path == file })
	for p.state.Files[at].Durable < end {
		if p.ended {
			return errors.Join(p.failed, fmt.Errorf("%s: bytes before %d have not arrived", file, end))
		}
		p.changed.Wait()
	}
	return nil
}

// discardStreams deletes what was downloaded in pieces, and the pack.
func (p *packPull) discardStreams() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Pack.Step, p.state.Pack.Hash = PackStep{}, nil
	for i := range p.state.Files {
		if p.remote.Files[i].isStreamed() {
			p.state.Files[i].Durable, p.state.Files[i].Hash = 0, nil
		}
	}
	if err := p.store.writeRecord(p.stateFile(), p.state); err != nil {
		return err
	}
	_, err := p.store.removePieces(p.state)
	return err
}

// discarded discards everything, because of an error.
func (p *packPull) discarded(err error) error {
	return errors.Join(fmt.Errorf("%w; %w", err, ErrDiscarded), p.discardAll(), p.forgetEmpty())
}

// discardAll is discardStreams for a download of which nothing can be used.
func (p *packPull) discardAll() error {
	return errors.Join(p.discardStreams(), p.store.removeIfThere(p.pack))
}

// removePieces deletes the pieces of a model's files and the pack that is on the way, and returns how many bytes that
// frees.
func (s *Store) removePieces(r *record) (freed int64, err error) {
	names, err := s.pieces(r)
	for name, info := range names {
		if failed := s.FS.Remove(name); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		freed += info.Size
	}
	partial := r.Name + packSuffix + partialSuffix
	if info, failed := s.FS.Stat(vfs.Join(s.Dir, partial)); failed == nil {
		freed += info.Size
	}
	return freed, errors.Join(err, s.removeIfThere(partial))
}

// finishPack makes the pack the model, and deletes what it was made of.
func (p *packPull) finishPack() (Model, error) {
	s := p.store
	info, err := s.FS.Stat(vfs.Join(s.Dir, p.pack))
	if err != nil {
		return Model{}, err
	}
	packed := storedFile{Path: p.pack, Size: info.Size}
	done := record{Name: p.state.Name, Source: p.state.Source, Path: p.pack, Files: []storedFile{packed}}
	for _, f := range p.state.Files {
		f.Durable, f.Hash = 0, nil
		done.Made = append(done.Made, f)
	}
	// Until what remains is deleted, the state names it, so that the next call and rm delete what a crash left.
	if err := s.writeRecord(p.remote.Name+recordSuffix, &done); err != nil {
		return Model{}, err
	}
	if err := s.tidy(p.remote.Name); err != nil {
		return Model{}, err
	}
	return s.model(&done)
}

// tidy deletes what is left of the download of a model that is complete: its state, and of a pack what it was made of.
func (s *Store) tidy(name string) error {
	state, err := s.readRecord(name + stateSuffix)
	if err == nil && state.Pack != nil {
		if _, err := s.removeFiles(state); err != nil {
			return err
		}
	}
	return s.removeIfThere(name + stateSuffix)
}
