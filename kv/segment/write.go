package segment

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
)

// writeBufferBytes is large enough for long writes to flash.
const writeBufferBytes = 1 << 20

// Pages returns the bytes of a page of a layer, which stay valid until the next call.
// Pages are numbered from the first of the segment. The writer calls it once for each
// page, layer by layer.
type Pages func(layer, page int) ([]byte, error)

// WriteFunc writes p to a file at off. It decides when each piece is written.
type WriteFunc = func(to io.WriterAt, p []byte, off int64) error

// pieceBytes is the size of the pieces that are passed to a WriteFunc.
const pieceBytes = 256 << 10

// pieces writes to a file in pieces.
type pieces struct {
	f     vfs.File
	off   int64
	write WriteFunc
}

// Write implements io.Writer.
func (w *pieces) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:min(n+pieceBytes, len(p))]
		if err = w.write(w.f, part, w.off); err == nil {
			n, w.off = n+len(part), w.off+int64(len(part))
		}
	}
	return n, err
}

// write fills a new file. It reserves the space first, so that a full disk is
// detected before anything is written, and writes the header last, so that an
// incomplete file has no valid header.
func (h *header) write(f vfs.File, page Pages, write WriteFunc) error {
	if err := vfs.Allocate(f, h.fileBytes()); err != nil {
		return err
	}
	w := bufio.NewWriterSize(&pieces{f, h.bytes(), write}, writeBufferBytes)
	var zeros [pageAlign]byte
	h.checksums = make([]uint64, len(h.layout.PageBytes)*h.pages)
	for l, n := range h.layout.PageBytes {
		for i := range h.pages {
			var b []byte
			if n > 0 {
				var err error
				if b, err = page(l, i); err != nil {
					return err
				}
			}
			if len(b) != n {
				return fmt.Errorf("segment: layer %d: a page of %d bytes instead of %d", l, len(b), n)
			}
			h.checksums[l*h.pages+i] = pageChecksum(h.id, l, i, crc.Update(0, b))
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		_, size := h.run(l)
		if _, err := w.Write(zeros[:alignUp(size)-size]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return write(f, h.encode(), 0)
}

// create writes a segment under a temporary name and returns that name. On an error
// it removes the file.
func (d *Dir) create(h *header, page Pages, durable bool, write WriteFunc) (temp string, err error) {
	temp = d.path(fmt.Sprintf("%v%s%s-%d", h.id, vfs.TempMark, d.writer, d.serial.Add(1)))
	f, err := d.fsys.Create(temp)
	if err != nil {
		return "", err
	}
	err = h.write(f, page, write)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, d.fsys.Remove(temp))
	}
	d.written.Add(h.fileBytes())
	return temp, nil
}

// publish writes a segment under its final name and replaces an existing file.
func (d *Dir) publish(h *header, page Pages, durable bool, write WriteFunc) error {
	temp, err := d.create(h, page, durable, write)
	if err != nil {
		return err
	}
	if err := d.fsys.Rename(temp, d.path(h.name())); err != nil {
		return errors.Join(err, d.fsys.Remove(temp))
	}
	return nil
}
