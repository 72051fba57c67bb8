package chunk

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/store/vfs"
)

// writeBufferBytes is large enough that flash sees long writes.
const writeBufferBytes = 1 << 20

// Pages gives the bytes of a page of a layer. Pages count from the chunk's first.
type Pages func(layer, page int) []byte

// sumPages fills in the checksums.
func (h *header) sumPages(page Pages) error {
	h.sums = make([]uint64, len(h.layout.PageBytes)*h.pages)
	for l, n := range h.layout.PageBytes {
		for i := range h.pages {
			b := []byte(nil)
			if n > 0 {
				b = page(l, i)
			}
			if len(b) != n {
				return fmt.Errorf("chunk: layer %d: a page of %d bytes where pages have %d", l, len(b), n)
			}
			h.sums[l*h.pages+i] = pageSum(h.id, l, i, b)
		}
	}
	return nil
}

// write fills a new file: room first, so that a full disk shows before anything is
// written, and the header last, so that a file that lacks some of its bytes is
// none.
func (h *header) write(f vfs.File, page Pages) error {
	if err := vfs.Allocate(f, h.fileBytes()); err != nil {
		return err
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, h.bytes()), writeBufferBytes)
	var zeros [pageAlign]byte
	for l, n := range h.layout.PageBytes {
		if n == 0 {
			continue
		}
		for i := range h.pages {
			if _, err := w.Write(page(l, i)); err != nil {
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
	if err := h.sumPages(page); err != nil {
		return "", err
	}
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

// WriteAnonymous writes a chunk that nobody finds: for texts of which nothing is
// to stay. Its file has no name any more when this returns, or, where open files
// keep theirs, until it is closed.
func (s *Store) WriteAnonymous(tokens []int32, page Pages) (*File, error) {
	h, err := s.newHeader(randomID(), 0, tokens)
	if err != nil {
		return nil, err
	}
	if err := s.dir.makeRoom(h.fileBytes()); err != nil {
		return nil, err
	}
	temp, err := s.dir.create(h, page, false)
	if err != nil {
		return nil, err
	}
	file, err := vfs.OpenDirect(s.dir.fsys, temp)
	if err != nil {
		return nil, errors.Join(err, s.dir.fsys.Remove(temp))
	}
	f := &File{header: h, path: temp, file: file, dir: s.dir, users: 1}
	f.temp = s.dir.fsys.Remove(temp) != nil // else it stays until it is closed
	return f, nil
}
