package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// defaultCheckpoint is how much is written between two moments at which all of it is durable. A power cut loses at
	// most this much.
	defaultCheckpoint = 64 << 20
	// transferBytes is the size of one write.
	transferBytes = 256 << 10
)

// errChanged reports that a file without a published hash is another one than when its download began.
var errChanged = errors.New("the file has changed on the server")

// A download is the transfer of one file.
type download struct {
	client *Client
	file   *RemoteFile
	out    vfs.File
	sum    hash.Hash // SHA-256 of the bytes before at
	hash   hash.Hash // as the published digest is, which may be sum; nil without one
	at     int64     // bytes that are written
	synced int64     // bytes that are durable and saved as such
	every  int64     // bytes between checkpoints
	// save makes the number of durable bytes, and what identifies the file, durable.
	save func(durable int64) error
	// report receives the bytes that are written.
	report func(at int64)
}

// run transfers the rest of the file. What it has written when it fails is durable, if the disk permits.
func (d *download) run(ctx context.Context) error {
	for failures := 0; d.at < d.file.Size; {
		before := d.at
		err := d.attempt(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || final(err) || vfs.IsDiskFull(err) || isLocal(err) {
			return errors.Join(cancelled(ctx, err), d.keep(err))
		}
		if failures++; d.at > before {
			failures = 1 // the connection was lost, and the next one goes on
		}
		if failures == maxAttempts {
			return errors.Join(err, d.keep(err))
		}
		if err := d.client.pause(ctx, failures-1, err); err != nil {
			return errors.Join(err, d.keep(err))
		}
	}
	return d.checkpoint()
}

// isLocal reports whether an error is one of this machine's files.
func isLocal(err error) bool {
	var local *vfs.IOError
	return errors.As(err, &local)
}

// keep makes what was written durable after a failure. After a failure of the disk it tries, and its own error would
// say nothing new.
func (d *download) keep(failed error) error {
	if err := d.checkpoint(); err != nil && !isLocal(failed) {
		return err
	}
	return nil
}

// checkpoint makes what was written durable.
func (d *download) checkpoint() error {
	if d.at == d.synced {
		return nil
	}
	if err := d.out.Sync(); err != nil {
		return err
	}
	if err := d.save(d.at); err != nil {
		return err
	}
	d.synced = d.at
	return nil
}

// restart begins the file again.
func (d *download) restart() error {
	d.at, d.synced = 0, 0
	if err := d.save(0); err != nil {
		return err
	}
	if err := d.beginHashes(); err != nil {
		return err
	}
	d.report(0)
	return d.out.Truncate(0)
}

// beginHashes makes the hashes those of no bytes.
func (d *download) beginHashes() (err error) {
	d.sum, d.hash = sha256.New(), nil
	switch {
	case strings.HasPrefix(d.file.Digest, digestSHA256):
		d.hash = d.sum
	case d.file.Digest != "":
		d.hash, err = newDigest(d.file.Digest, d.file.Size)
	}
	return err
}

// addHashes continues the hashes with the next bytes.
func (d *download) addHashes(p []byte) {
	d.sum.Write(p)
	if d.hash != nil && d.hash != d.sum {
		d.hash.Write(p)
	}
}

// attempt transfers what one connection brings. It returns nil if the connection brought what was asked for.
func (d *download) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alive := time.AfterFunc(d.client.stall(), func() { cancel(errStalled) })
	defer alive.Stop()
	response, err := d.client.do(ctx, d.request(), http.StatusOK, http.StatusPartialContent)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusRequestedRangeNotSatisfiable {
		return d.changed(nil)
	}
	if err != nil {
		return cancelled(ctx, err)
	}
	defer response.Body.Close()
	if err := d.accept(response); err != nil {
		return fmt.Errorf("%s: %w", shownURL(response.Request.URL), err)
	}
	err = d.transfer(aliveReader{ctx, response.Body, func() { alive.Reset(d.client.stall()) }})
	if err != nil && !isLocal(err) {
		err = fmt.Errorf("%s: %w", shownURL(response.Request.URL), cancelled(ctx, err))
	}
	return err
}

// aliveReader calls arrived whenever bytes have arrived, and ends with the context at once.
type aliveReader struct {
	ctx     context.Context
	body    io.Reader
	arrived func()
}

func (r aliveReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.body.Read(p)
	if n > 0 {
		r.arrived()
	}
	return n, err
}

// request asks for what is missing.
func (d *download) request() request {
	ask := request{url: d.file.URL, token: d.file.token, header: map[string]string{}}
	if d.at == 0 {
		return ask
	}
	ask.header["Range"] = fmt.Sprintf("bytes=%d-", d.at)
	switch { // with a published digest, tags of servers that share the load do not matter
	case d.file.Digest != "":
	case d.file.ETag != "":
		ask.header["If-Range"] = d.file.ETag
	case d.file.LastModified != "":
		ask.header["If-Range"] = d.file.LastModified
	}
	return ask
}

// accept compares an answer with what was asked for. It begins again if the server sends the file from its beginning.
func (d *download) accept(response *http.Response) error {
	if response.StatusCode == http.StatusPartialContent {
		if d.at == 0 {
			return fmt.Errorf("%w: a part of the file, where all of it was asked for", ErrServer)
		}
		if err := d.file.checkRange(response.Header, d.at, d.file.Size); err != nil {
			return err
		}
		if !d.same(response.Header) {
			return d.changed(response.Header)
		}
		return nil
	}
	if n := response.ContentLength; n >= 0 && n != d.file.Size {
		if d.file.Digest == "" {
			return errors.Join(fmt.Errorf("%w: %w: it has %d bytes instead of %d; the same command begins again", ErrServer, errChanged, n, d.file.Size), d.restart())
		}
		return fmt.Errorf("%w: %d bytes instead of %d", ErrServer, n, d.file.Size)
	}
	if !d.same(response.Header) {
		d.adopt(response.Header)
		d.client.notify("%s has changed on the server: its download begins again", d.file.Path)
	} else if d.at > 0 {
		d.client.notify("the server sends files only as a whole: the download of %s begins again", d.file.Path)
	}
	if d.at > 0 {
		return d.restart()
	}
	return nil
}

// same reports whether an answer is about the file whose download began.
func (d *download) same(h http.Header) bool {
	if d.file.Digest != "" {
		return true // its hash decides
	}
	tag, modified := strongETag(h), h.Get("Last-Modified")
	if d.file.ETag != "" && tag != "" {
		return tag == d.file.ETag
	}
	return d.file.LastModified == "" || modified == "" || modified == d.file.LastModified
}

// adopt takes what identifies the file from an answer.
func (d *download) adopt(h http.Header) {
	d.file.ETag, d.file.LastModified = strongETag(h), h.Get("Last-Modified")
}

// changed begins a file again that is not what it was. It returns an error, so that the attempt counts.
func (d *download) changed(h http.Header) error {
	if h != nil {
		d.adopt(h)
	}
	d.client.notify("%s has changed on the server: its download begins again", d.file.Path)
	return errors.Join(errChanged, d.restart())
}

// transfer writes a body to the file.
func (d *download) transfer(body io.Reader) error {
	buffer := make([]byte, transferBytes)
	for {
		n, err := io.ReadFull(body, buffer[:min(int64(len(buffer)), d.file.Size-d.at+1)])
		if n > 0 {
			if int64(n) > d.file.Size-d.at {
				return fmt.Errorf("%w: more than the %d bytes of the file", ErrServer, d.file.Size)
			}
			if err := d.write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case d.at == d.file.Size:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}

// write appends bytes to the file.
func (d *download) write(p []byte) error {
	if _, err := d.out.WriteAt(p, d.at); err != nil {
		return err
	}
	d.addHashes(p)
	d.at += int64(len(p))
	d.report(d.at)
	if d.at-d.synced >= d.every {
		return d.checkpoint()
	}
	return nil
}

// verify compares the file with its published digest.
func (d *download) verify() error {
	if d.hash == nil {
		return nil
	}
	if got := sumOf(d.file.Digest, d.hash); got != d.file.Digest {
		return fmt.Errorf("%s: %w: %s instead of %s", d.file.Path, ErrDigest, got, d.file.Digest)
	}
	return nil
}
