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

// write fills a new file. It reserves the space first, so that a full disk is
// detected before anything is written, and writes the header last, so that an
// incomplete file has no valid header.
func (h *header) write(f vfs.File, page Pages) error {
	if err := vfs.Allocate(f, h.fileBytes()); err != nil {
		return err
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, h.bytes()), writeBufferBytes)
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
	_, err := f.WriteAt(h.encode(), 0)
	return err
}

// create writes a segment under a temporary name and returns that name. On an error
// it removes the file.
func (d *Dir) create(h *header, page Pages, durable bool) (temp string, err error) {
	temp = d.path(fmt.Sprintf("%v%s%s-%d", h.id, vfs.TempMark, d.writer, d.serial.Add(1)))
	f, err := d.fsys.Create(temp)
	if err != nil {
		return "", err
	}
	err = h.write(f, page)
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
func (d *Dir) publish(h *header, page Pages, durable bool) error {
	temp, err := d.create(h, page, durable)
	if err != nil {
		return err
	}
	if err := d.fsys.Rename(temp, d.path(h.name())); err != nil {
		return errors.Join(err, d.fsys.Remove(temp))
	}
	return nil
}
