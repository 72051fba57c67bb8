package hub

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io/fs"

	"github.com/llmrun/llmrun/store/vfs"
)

// arrivingFS has the files of a model that is downloaded in pieces. While the pack is planned, it reads from the server
// what has not arrived; then it waits for it.
type arrivingFS struct {
	*remoteFS
	pull     *packPull
	planning bool
	running  bool // files arrive
}

// Open implements fs.FS.
func (a *arrivingFS) Open(name string) (fs.File, error) {
	f, err := a.remoteFS.Open(name)
	if remote, ok := f.(*remoteFile); ok {
		return &arrivingFile{remoteFile: remote, fs: a}, nil
	}
	return f, err
}

// arrivingFile is an open file.
type arrivingFile struct {
	*remoteFile
	fs *arrivingFS
}

func (f *arrivingFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *arrivingFile) ReadAt(p []byte, off int64) (int, error) {
	pull := f.fs.pull
	switch {
	case !f.file.isStreamed():
		return readFile(pull.store.FS, vfs.Join(pull.store.Dir, f.file.Path), p, off)
	case f.fs.planning:
		return f.remoteFile.ReadAt(p, off)
	}
	if err := pull.await(f.file.Path, off+int64(len(p))); err != nil {
		return 0, err
	}
	piece := pull.state.Pack.Piece
	for n := 0; n < len(p); {
		k, at := (off+int64(n))/piece, (off+int64(n))%piece
		part := p[n : n+int(min(int64(len(p)-n), piece-at))]
		if _, err := readFile(pull.store.FS, pull.pieceName(f.file.Path, k), part, at); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// readFile reads at an offset of a file.
func readFile(fsys vfs.FS, name string, p []byte, off int64) (n int, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.ReadAt(p, off)
}

// forget frees what was read of a file before an offset: it has arrived, and is not compared.
func (r *remoteFS) forget(path string, before int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, block := range r.blocks {
		if key.path == path && key.at*blockBytes+int64(len(block)) <= before {
			delete(r.blocks, key)
		}
	}
}

// isAsRead compares bytes that arrive with those that were read of the file before, by which the pack was planned.
func (r *remoteFS) isAsRead(path string, p []byte, off int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := off / blockBytes; at*blockBytes < off+int64(len(p)); at++ {
		block, ok := r.blocks[blockKey{path, at}]
		if !ok {
			continue
		}
		from, to := max(off, at*blockBytes), min(off+int64(len(p)), at*blockBytes+int64(len(block)))
		if from < to && !bytes.Equal(p[from-off:to-off], block[from-at*blockBytes:to-at*blockBytes]) {
			return false
		}
		if to == at*blockBytes+int64(len(block)) {
			delete(r.blocks, blockKey{path, at})
		}
	}
	return true
}

// pieceFile stores a file that is downloaded in pieces.
type pieceFile struct {
	pull *packPull
	file *RemoteFile
	open map[int64]vfs.File // pieces that were written since the last Sync
	made bool               // some of them are new
}

// piece returns a piece for writing.
func (f *pieceFile) piece(k, at int64) (vfs.File, error) {
	if open := f.open[k]; open != nil {
		return open, nil
	}
	name, fsys := f.pull.pieceName(f.file.Path, k), f.pull.store.FS
	if at > 0 {
		open, err := vfs.Reopen(fsys, name)
		if err == nil {
			f.open[k] = open
		}
		return open, err
	}
	if dir, _ := vfs.Split(name); dir != f.pull.store.Dir {
		if err := errors.Join(fsys.MkdirAll(dir), fsys.SyncDir(f.pull.store.Dir)); err != nil {
			return nil, err
		}
	}
	open, err := fsys.Create(name)
	if err == nil {
		f.open[k], f.made = open, true
	}
	return open, err
}

// WriteAt implements vfs.File.
func (f *pieceFile) WriteAt(p []byte, off int64) (n int, err error) {
	if !f.pull.files.isAsRead(f.file.Path, p, off) {
		return 0, fmt.Errorf("%s: %w", f.file.Path, errBegun)
	}
	size := f.pull.state.Pack.Piece
	for n < len(p) {
		k, at := (off+int64(n))/size, (off+int64(n))%size
		part := p[n : n+int(min(int64(len(p)-n), size-at))]
		piece, err := f.piece(k, at)
		if err != nil {
			return n, err
		}
		if _, err := piece.WriteAt(part, at); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Sync implements vfs.File.
func (f *pieceFile) Sync() (err error) {
	for _, piece := range f.open {
		err = errors.Join(err, piece.Sync())
	}
	if err == nil && f.made {
		dir, _ := vfs.Split(f.pull.pieceName(f.file.Path, 0))
		err = f.pull.store.FS.SyncDir(dir)
	}
	if err != nil {
		return err
	}
	f.made = false
	return f.Close()
}

// Close implements vfs.File.
func (f *pieceFile) Close() (err error) {
	for k, piece := range f.open {
		err = errors.Join(err, piece.Close())
		delete(f.open, k)
	}
	return err
}

// Truncate implements vfs.File: a file that begins again is in the pack already, or may be.
func (f *pieceFile) Truncate(int64) error { return fmt.Errorf("%s: %w", f.file.Path, errBegun) }

// ReadAt implements vfs.File.
func (f *pieceFile) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

// Size implements vfs.File.
func (f *pieceFile) Size() (int64, error) { return 0, errors.ErrUnsupported }

// Name implements vfs.File.
func (f *pieceFile) Name() string { return f.file.Path }

// hashedFile hashes what is written to a file from its beginning to its end.
type hashedFile struct {
	vfs.File
	sum hash.Hash
	at  int64 // end of what is hashed, or unknownHash
}

// unknownHash stands for a file that was not written in order.
const unknownHash = -1

// WriteAt implements io.WriterAt.
func (f *hashedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if off != f.at {
		f.at = unknownHash
		return n, err
	}
	f.sum.Write(p[:n])
	f.at += int64(n)
	return n, err
}
