package segment

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
)

// writeBufferBytes is large enough that flash sees long writes.
const writeBufferBytes = 1 << 20

// Pages gives the bytes of a page of a layer, which stay as they are until the next
// call. Pages count from the chunk's first. Each is asked for once, in the order of
// layers and then of pages.
type Pages func(layer, page int) ([]byte, error)

// write fills a new file: room first, so that a full disk shows before anything is
// written, and the header last, so that a file that lacks some of its bytes is
// none.
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
				return fmt.Errorf("chunk: layer %d: a page of %d bytes where pages have %d", l, len(b), n)
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

// create writes a chunk under a temporary name and returns that. A failure leaves
// nothing.
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

// publish writes a chunk under its name, replacing what may be there.
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
