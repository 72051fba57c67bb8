package pack

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
)

// Contents is what goes into a pack, except for the bytes of the tensors.
type Contents struct {
	About       About
	Attachments []Attachment
	Sections    []Section
}

// Attachment is a file that a pack carries along.
type Attachment struct {
	Name string
	Data []byte
}

// Section is a run of tensors that are used, and read, together.
type Section struct {
	Name    string
	Tensors []Tensor // in the order in which they will lie
}

// Bytes returns about how long the pack will be.
func (c *Contents) Bytes() (int64, error) {
	total := int64(headerBytes + footerBytes)
	for _, a := range c.Attachments {
		total += alignUp(int64(len(a.Data)), pageBytes)
	}
	for i := range c.Sections {
		size, err := c.Sections[i].assignOffsets()
		if err != nil {
			return 0, err
		}
		total += alignUp(size, pageBytes) + 8*blockCount(size)
	}
	return total, nil
}

// assignOffsets sets the offsets of the section's tensors and returns its length.
func (s *Section) assignOffsets() (int64, error) {
	end := int64(0)
	for i := range s.Tensors {
		t := &s.Tensors[i]
		size, err := t.Bytes()
		if err != nil {
			return 0, fmt.Errorf("pack: tensor %q: %w", t.Name, err)
		}
		if size == 0 {
			return 0, fmt.Errorf("pack: tensor %q has no elements", t.Name)
		}
		t.Off = end
		end = alignUp(end+size, Align)
	}
	return end, nil
}

// Write writes a pack, which is there completely or not at all. body is to
// write the bytes of all tensors, in the order of the sections and with nothing
// between them. While another process writes the same pack, Write fails at once
// with an error that wraps vfs.ErrLocked. What earlier writers left behind that
// were killed is removed.
func Write(fsys vfs.FS, path string, c Contents, body func(w io.Writer) error) (err error) {
	lock, err := vfs.Lock(fsys, path+lockSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := removeStale(fsys, path); err != nil {
		return err
	}
	w := &writer{}
	if err := w.plan(&c); err != nil {
		return err
	}
	err = vfs.WriteAtomic(fsys, path, func(out io.Writer) error {
		w.out = out
		return w.write(&c, body)
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// writer lays a pack out as its bytes come in.
type writer struct {
	out     io.Writer
	index   index
	at      int64 // length of the file so far
	next    int   // tensor that the next byte of body belongs to
	missing int64 // bytes of it that are still missing

	blockChecksum uint32 // of the block that is being written
	blockFill     int    // its bytes so far
}

// plan fills the index, except for offsets and sums of extents.
func (w *writer) plan(c *Contents) error {
	x := &w.index
	x.about = c.About
	x.about.Tiling = tiled.LayoutVersion
	for _, a := range c.Attachments {
		x.extents = append(x.extents, extent{kind: attachment, name: a.Name, size: int64(len(a.Data))})
	}
	for i := range c.Sections {
		s := &c.Sections[i]
		size, err := s.assignOffsets()
		if err != nil {
			return err
		}
		if size == 0 {
			return fmt.Errorf("pack: section %q is empty", s.Name)
		}
		for range s.Tensors {
			x.extentOf = append(x.extentOf, int32(len(x.extents)))
		}
		x.tensors = append(x.tensors, s.Tensors...)
		x.extents = append(x.extents, extent{kind: section, name: s.Name, size: size})
	}
	return nil
}

// write writes the file from the header to the footer.
func (w *writer) write(c *Contents, body func(w io.Writer) error) error {
	if err := w.writeRaw(encodeHeader()); err != nil {
		return err
	}
	for i, a := range c.Attachments {
		w.index.extents[i].off = w.at
		if err := w.writeChecksummed(&w.index.extents[i], a.Data); err != nil {
			return err
		}
		if err := w.endExtent(&w.index.extents[i]); err != nil {
			return err
		}
	}
	if err := w.beginTensor(); err != nil {
		return err
	}
	if err := body(bodyWriter{w}); err != nil {
		return err
	}
	if w.next < len(w.index.tensors) {
		return fmt.Errorf("pack: tensor %q lacks %d bytes", w.index.tensors[w.next].Name, w.missing)
	}
	f := footer{index: w.at}
	encoded := w.index.encode()
	f.length, f.sum, f.file = int64(len(encoded)), checksum(encoded), w.at+int64(len(encoded))+footerBytes
	return w.writeRaw(append(encoded, f.encode()...))
}

// bodyWriter is what the bytes of tensors are written to.
type bodyWriter struct{ w *writer }

func (b bodyWriter) Write(p []byte) (int, error) {
	w, n := b.w, 0
	for n < len(p) {
		if w.next >= len(w.index.tensors) {
			return n, fmt.Errorf("pack: %d bytes more than the tensors have", len(p)-n)
		}
		piece := p[n : n+int(min(int64(len(p)-n), w.missing))]
		if err := w.writeChecksummed(w.current(), piece); err != nil {
			return n, err
		}
		n += len(piece)
		if w.missing -= int64(len(piece)); w.missing == 0 {
			if err := w.endTensor(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// current returns the section of the next byte.
func (w *writer) current() *extent { return &w.index.extents[w.index.extentOf[w.next]] }

// beginTensor makes the next tensor the present one.
func (w *writer) beginTensor() (err error) {
	if w.next == len(w.index.tensors) {
		return nil
	}
	t := &w.index.tensors[w.next]
	if t.Off == 0 {
		w.current().off = w.at
	}
	w.missing, err = t.Bytes()
	return err
}

// endTensor fills up to the next one's place, or to the end of the section.
func (w *writer) endTensor() error {
	x := w.current()
	upTo := x.size
	last := w.next+1 == len(w.index.tensors) || w.index.extentOf[w.next+1] != w.index.extentOf[w.next]
	if !last {
		upTo = w.index.tensors[w.next+1].Off
	}
	if err := w.writeChecksummed(x, make([]byte, x.off+upTo-w.at)); err != nil {
		return err
	}
	w.next++
	if last {
		if err := w.endExtent(x); err != nil {
			return err
		}
	}
	return w.beginTensor()
}

// writeChecksummed writes bytes of an extent and sums its full blocks.
func (w *writer) writeChecksummed(x *extent, p []byte) error {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), BlockBytes-w.blockFill)
		w.blockChecksum = crc.Update(w.blockChecksum, rest[:n])
		w.blockFill += n
		if rest = rest[n:]; w.blockFill == BlockBytes {
			w.endBlock(x)
		}
	}
	return w.writeRaw(p)
}

func (w *writer) endBlock(x *extent) {
	x.checksums = append(x.checksums, w.blockChecksum)
	w.blockChecksum, w.blockFill = 0, 0
}

// endExtent sums the last block and fills up the page.
func (w *writer) endExtent(x *extent) error {
	if w.blockFill > 0 {
		w.endBlock(x)
	}
	return w.writeRaw(make([]byte, alignUp(w.at, pageBytes)-w.at))
}

func (w *writer) writeRaw(p []byte) error {
	n, err := w.out.Write(p)
	w.at += int64(n)
	return err
}

// lockSuffix makes the name of the lock that a pack's writer holds.
const lockSuffix = ".lock"

// removeStale removes the temporary files of writers of path that have died.
// The lock of path is held, so none of them is alive.
func removeStale(fsys vfs.FS, path string) error {
	dir, base := vfs.Split(path)
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name, base+vfs.TempMark) {
			if err := fsys.Remove(vfs.Join(dir, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
