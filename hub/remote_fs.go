package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// blockBytes is the least that is read of a file on a server.
	blockBytes = 128 << 10
	// maxAheadBlocks limits how far consecutive reads read ahead.
	maxAheadBlocks = 16
	// maxRemoteBytes limits what is read of a model that is only described: headers and configuration.
	maxRemoteBytes = 192 << 20
)

// ErrTooMuch reports that more of a model would have been read than its description has.
var ErrTooMuch = errors.New("more than headers would be downloaded")

// ErrNoRanges reports a server from which parts of a file cannot be read.
var ErrNoRanges = errors.New("the server sends files only as a whole")

// Open returns the files of a model as a file system that reads them from the server by ranges, for headers and
// configuration. What was read stays in memory, and reads end with ErrTooMuch before they amount to a download.
func (c *Client) Open(ctx context.Context, r *Remote) fs.FS {
	return &remoteFS{ctx: ctx, client: c, remote: r, blocks: map[blockKey][]byte{}}
}

// remoteFS implements Client.Open.
type remoteFS struct {
	ctx    context.Context
	client *Client
	remote *Remote

	mu     sync.Mutex
	blocks map[blockKey][]byte
	read   int64 // bytes that were read from the server
}

// blockKey names a block of a file.
type blockKey struct {
	path string
	at   int64 // number of the block
}

// Open implements fs.FS.
func (r *remoteFS) Open(name string) (fs.File, error) {
	for i := range r.remote.Files {
		if f := &r.remote.Files[i]; f.Path == name {
			return &remoteFile{fs: r, file: f}, nil
		}
	}
	if entries := r.list(name); len(entries) > 0 {
		return &remoteDir{remoteInfo{name: path.Base(name), dir: true}, entries}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// list returns the files of a directory.
func (r *remoteFS) list(dir string) (entries []fs.DirEntry) {
	for _, f := range r.remote.Files {
		if path.Dir(f.Path) == dir {
			entries = append(entries, fs.FileInfoToDirEntry(remoteInfo{name: path.Base(f.Path), size: f.Size}))
		} else if rest, below := strings.CutPrefix(f.Path, dir+"/"); (below || dir == ".") && strings.Contains(rest, "/") {
			child, _, _ := strings.Cut(rest, "/")
			if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == child }) {
				entries = append(entries, fs.FileInfoToDirEntry(remoteInfo{name: child, dir: true}))
			}
		}
	}
	return entries
}

// remoteInfo describes a file or directory.
type remoteInfo struct {
	name string
	size int64
	dir  bool
}

func (i remoteInfo) Name() string       { return i.name }
func (i remoteInfo) Size() int64        { return i.size }
func (i remoteInfo) ModTime() time.Time { return time.Time{} }
func (i remoteInfo) IsDir() bool        { return i.dir }
func (i remoteInfo) Sys() any           { return nil }
func (i remoteInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o500
	}
	return 0o400
}

// remoteDir is an open directory.
type remoteDir struct {
	info    remoteInfo
	entries []fs.DirEntry
}

func (d *remoteDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *remoteDir) Close() error               { return nil }
func (d *remoteDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: errors.New("is a directory")}
}

// ReadDir implements fs.ReadDirFile.
func (d *remoteDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	list := d.entries[:n]
	d.entries = d.entries[n:]
	return list, nil
}

// remoteFile is an open file.
type remoteFile struct {
	fs    *remoteFS
	file  *RemoteFile
	at    int64 // of Read
	next  int64 // block after the last one that was fetched
	ahead int64 // blocks of the last fetch
}

func (f *remoteFile) Stat() (fs.FileInfo, error) {
	return remoteInfo{name: path.Base(f.file.Path), size: f.file.Size}, nil
}

func (f *remoteFile) Close() error { return nil }

func (f *remoteFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *remoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for n < len(p) {
		if off >= f.file.Size {
			return n, io.EOF
		}
		block, err := f.block(off / blockBytes)
		if err != nil {
			return n, err
		}
		copied := copy(p[n:], block[off%blockBytes:])
		n, off = n+copied, off+int64(copied)
	}
	return n, nil
}

// block returns a block of the file. The caller holds the mutex.
func (f *remoteFile) block(at int64) ([]byte, error) {
	if block, ok := f.fs.blocks[blockKey{f.file.Path, at}]; ok {
		return block, nil
	}
	f.ahead = max(1, min(2*f.ahead, maxAheadBlocks))
	if at != f.next {
		f.ahead = 1
	}
	from := at * blockBytes
	to := min(from+f.ahead*blockBytes, f.file.Size)
	if f.fs.read+to-from > maxRemoteBytes {
		return nil, ErrTooMuch
	}
	data, err := f.fs.client.readRange(f.fs.ctx, f.file, from, to)
	if err != nil {
		return nil, err
	}
	f.fs.read += to - from
	for i := int64(0); i*blockBytes < int64(len(data)); i++ {
		f.fs.blocks[blockKey{f.file.Path, at + i}] = data[i*blockBytes : min((i+1)*blockBytes, int64(len(data)))]
	}
	f.next = at + f.ahead
	return f.fs.blocks[blockKey{f.file.Path, at}], nil
}

// readRange reads the bytes from to to of a file.
func (c *Client) readRange(ctx context.Context, f *RemoteFile, from, to int64) (data []byte, err error) {
	err = c.retry(ctx, func() (err error) {
		data, err = c.readRangeOnce(ctx, f, from, to)
		return err
	})
	return data, err
}

func (c *Client) readRangeOnce(ctx context.Context, f *RemoteFile, from, to int64) ([]byte, error) {
	ctx, stop := context.WithTimeoutCause(ctx, c.stall(), errStalled)
	defer stop()
	ask := request{url: f.URL, token: f.token, header: map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", from, to-1)}}
	response, err := c.do(ctx, ask, http.StatusPartialContent, http.StatusOK)
	if err != nil {
		return nil, cancelled(ctx, err)
	}
	defer response.Body.Close()
	shown := shownURL(response.Request.URL)
	if response.StatusCode == http.StatusOK {
		if from > 0 || response.ContentLength >= 0 && response.ContentLength != f.Size {
			return nil, fmt.Errorf("%s: %w: %w", shown, ErrServer, ErrNoRanges)
		}
	} else if err := f.checkRange(response.Header, from, to); err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	data := make([]byte, to-from)
	if _, err := io.ReadFull(response.Body, data); err != nil {
		return nil, fmt.Errorf("%s: %w", shown, cancelled(ctx, err))
	}
	return data, nil
}

// checkRange refuses a partial answer that is not the bytes from to to of the file.
func (f *RemoteFile) checkRange(h http.Header, from, to int64) error {
	at, err := parseContentRange(h.Get("Content-Range"))
	if err != nil {
		return err
	}
	if at.first != from || at.last != to-1 || at.total >= 0 && at.total != f.Size {
		return fmt.Errorf("%w: %q instead of bytes %d-%d/%d", ErrServer, h.Get("Content-Range"), from, to-1, f.Size)
	}
	return nil
}
