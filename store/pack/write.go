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

// Contents is the content of a pack except for the bytes of the tensors.
type Contents struct {
	About About
	// Origin, if set, returns About when all tensors have been written: a fingerprint of the
	// source can be computed while the tensors are read.
	Origin      func() (About, error)
	Attachments []Attachment
	Sections    []Section
	// Program, if set, is what the file begins with: the pack is behind it.
	Program *Program
}

// Attachment is a file that a pack carries.
type Attachment struct {
	Name string
	Data []byte
}

// Section is a sequence of tensors that the engine reads together.
type Section struct {
	Name    string
	Tensors []Tensor // in file order
}

// Bytes returns the approximate length of the file.
func (c *Contents) Bytes() (int64, error) {
	total := int64(headerBytes + footerBytes)
	if c.Program != nil {
		total += c.Program.Bytes()
	}
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

// assignOffsets sets the offsets of the section's tensors and returns the length of the
// section.
func (s *Section) assignOffsets() (int64, error) {
	end := int64(0)
	for i := range s.Tensors {
		t := &s.Tensors[i]
		size, err := t.Bytes()
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if size == 0 {
			return 0, fmt.Errorf("tensor %q has no elements", t.Name)
		}
		t.Off = end
		end = alignUp(end+size, Align)
	}
	return end, nil
}

// Write writes a pack atomically. body must write the bytes of all tensors in the order of
// the sections, without gaps. While another process writes the same pack, Write returns an
// error that wraps vfs.ErrLocked. Write removes the leftovers of killed writers.
func Write(fsys vfs.FS, path string, c Contents, body func(w io.Writer) error) error {
	w := &writer{}
	if err := w.plan(&c); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return locked(fsys, path, func() error {
		return c.Program.writeBehind(fsys, path, func(out io.Writer) error {
			w.out = out
			return w.write(&c, body)
		})
	})
}

// locked calls write while no other process writes the same file.
func locked(fsys vfs.FS, path string, write func() error) (err error) {
	lock, err := vfs.Lock(fsys, path+lockSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if vfs.ProvesAbsence(lock) {
		if err := removeStale(fsys, path); err != nil {
			return err
		}
	}
	if err := write(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// writer writes the parts of a pack in file order.
type writer struct {
	out     io.Writer
	index   index
	at      int64 // offset of the next byte in the file
	next    int   // tensor of the next byte of body
	missing int64 // bytes of this tensor that body has not written

	blockChecksum uint32 // of the current block
	blockFill     int    // bytes of the current block
}

// plan fills the index except for the offsets and checksums of extents.
func (w *writer) plan(c *Contents) error {
	x := &w.index
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
			return fmt.Errorf("section %q is empty", s.Name)
		}
		for range s.Tensors {
			x.extentOf = append(x.extentOf, int32(len(x.extents)))
		}
		x.tensors = append(x.tensors, s.Tensors...)
		x.extents = append(x.extents, extent{kind: section, name: s.Name, size: size})
	}
	return nil
}

// write writes the file from header to footer.
func (w *writer) write(c *Contents, body func(w io.Writer) error) error {
	if err := w.writeRaw(encodeHeader(w.index.version())); err != nil {
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
		return fmt.Errorf("tensor %q lacks %d bytes", w.index.tensors[w.next].Name, w.missing)
	}
	if err := w.setAbout(c); err != nil {
		return err
	}
	f := footer{index: w.at}
	encoded := w.index.encode()
	f.length, f.sum, f.file = int64(len(encoded)), checksum(encoded), w.at+int64(len(encoded))+footerBytes
	return w.writeRaw(append(encoded, f.encode()...))
}

// setAbout sets the origin of the pack.
func (w *writer) setAbout(c *Contents) (err error) {
	w.index.about = c.About
	if c.Origin != nil {
		w.index.about, err = c.Origin()
	}
	w.index.about.Tiling = tiled.LayoutVersion
	return err
}

// bodyWriter receives the bytes of the tensors.
type bodyWriter struct{ w *writer }

func (b bodyWriter) Write(p []byte) (int, error) {
	w, n := b.w, 0
	for n < len(p) {
		if w.next >= len(w.index.tensors) {
			return n, fmt.Errorf("%d bytes more than the tensors have", len(p)-n)
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

// beginTensor starts the tensor w.next.
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

// endTensor pads to the next tensor or to the end of the section.
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

// writeChecksummed writes bytes of an extent and records the checksums of full blocks.
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

// endBlock records the checksum of the current block.
func (w *writer) endBlock(x *extent) {
	x.checksums = append(x.checksums, w.blockChecksum)
	w.blockChecksum, w.blockFill = 0, 0
}

// endExtent records the checksum of the last block and pads to the page.
func (w *writer) endExtent(x *extent) error {
	if w.blockFill > 0 {
		w.endBlock(x)
	}
	return w.writeRaw(make([]byte, alignUp(w.at, pageBytes)-w.at))
}

// writeRaw writes bytes outside extents, or bytes whose checksum is already recorded.
func (w *writer) writeRaw(p []byte) error {
	n, err := w.out.Write(p)
	w.at += int64(n)
	return err
}

// lockSuffix is the suffix of the lock that the writer of a pack holds.
const lockSuffix = ".lock"

// removeStale removes the temporary files of killed writers of path. The caller holds the
// lock of path, so no writer is alive.
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
