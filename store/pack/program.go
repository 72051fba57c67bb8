package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// programAlign is the alignment of a pack behind a program: the largest page of the systems that map packs, and a
// multiple of what direct reads need.
const programAlign = 64 << 10

// maxProgramHeaders limits the tables that say how long a program is.
const maxProgramHeaders = 1 << 20

// errNoProgram reports a file that is no 64-bit executable of Linux, Android, macOS or Windows.
var errNoProgram = errors.New("is not a program for a 64-bit system that llmrun runs on")

// ProgramEnd returns the length of the executable in a file of size bytes. What follows in the file is not
// part of the program, such as a pack.
func ProgramEnd(r io.ReaderAt, size int64) (int64, error) {
	p := readProgram(r, size)
	return p.end, p.err
}

// readProgram reads the headers of an executable.
func readProgram(r io.ReaderAt, size int64) *program {
	p := &program{r: r, size: size}
	magic := p.bytes(0, 4)
	switch {
	case magic == nil:
	case string(magic) == "\x7fELF":
		p.elf()
	case binary.LittleEndian.Uint32(magic) == 0xfeedfacf:
		p.machO()
	case string(magic[:2]) == "MZ":
		p.pe()
	default:
		p.err = errNoProgram
	}
	if p.err == nil && p.end > size {
		p.err = fmt.Errorf("%w: its headers describe %d bytes, and it has %d", errNoProgram, p.end, size)
	}
	if p.err != nil {
		p.end = 0
	}
	return p
}

// isProgram reports whether the file is an executable.
func (p *program) isProgram() bool { return p.err == nil }

// readError returns why the headers could not be read, nil for headers of something else.
func (p *program) readError() error {
	if errors.Is(p.err, errNoProgram) {
		return nil
	}
	return p.err
}

// program finds the end of an executable from its headers.
type program struct {
	r    io.ReaderAt
	size int64
	end  int64
	err  error
}

// bytes returns a part of the headers, nil after an error.
func (p *program) bytes(off, n int64) []byte {
	switch {
	case p.err != nil:
		return nil
	case off < 0 || n > maxProgramHeaders || off > p.size-n:
		p.err = fmt.Errorf("%w: a table of %d bytes at %d is outside its %d bytes", errNoProgram, n, off, p.size)
		return nil
	}
	b := make([]byte, n)
	if _, err := p.r.ReadAt(b, off); err != nil {
		p.err = err
		return nil
	}
	return b
}

// has notes a part of the program.
func (p *program) has(off, n uint64) {
	const most = 1 << 62
	if off > most || n > most {
		p.err = fmt.Errorf("%w: a part of %d bytes at %d", errNoProgram, n, off)
		return
	}
	p.end = max(p.end, int64(off+n))
}

// table calls record for each record of a table.
func (p *program) table(off uint64, count, size uint16, record func(b []byte)) {
	n := uint64(count) * uint64(size)
	if p.has(off, n); n == 0 {
		return
	}
	for b := range slices.Chunk(p.bytes(int64(off), int64(n)), int(size)) {
		record(b)
	}
}

// elf reads the tables of segments and of sections.
func (p *program) elf() {
	const header, segment, section = 64, 56, 64 // bytes
	le, h := binary.LittleEndian, p.bytes(0, header)
	if h == nil || h[4] != 2 || h[5] != 1 || le.Uint16(h[54:]) != segment || le.Uint16(h[60:]) != 0 && le.Uint16(h[58:]) != section {
		p.err = errNoProgram // not of 64 bits, or not little-endian
		return
	}
	p.has(0, header)
	p.table(le.Uint64(h[32:]), le.Uint16(h[56:]), segment, func(b []byte) { p.has(le.Uint64(b[8:]), le.Uint64(b[32:])) })
	p.table(le.Uint64(h[40:]), le.Uint16(h[60:]), section, func(b []byte) {
		const nothing, memory = 0, 8 // types of sections without bytes in the file
		if kind := le.Uint32(b[4:]); kind != nothing && kind != memory {
			p.has(le.Uint64(b[24:]), le.Uint64(b[32:]))
		}
	})
}

// machO reads the load commands of segments, the last of which holds a signature.
func (p *program) machO() {
	const header, segment = 32, 0x19
	le, h := binary.LittleEndian, p.bytes(0, header)
	if h == nil {
		return
	}
	size := le.Uint32(h[20:])
	p.has(0, header+uint64(size))
	for b := p.bytes(header, int64(size)); len(b) >= 8; {
		n := le.Uint32(b[4:])
		if n < 8 || int64(n) > int64(len(b)) || le.Uint32(b) == segment && n < 56 {
			p.err = errNoProgram
			return
		}
		if le.Uint32(b) == segment {
			p.has(le.Uint64(b[40:]), le.Uint64(b[48:]))
		}
		b = b[n:]
	}
}

// pe reads the table of sections, and where symbols and a signature lie.
func (p *program) pe() {
	const dosHeader, coffHeader, section = 64, 24, 40
	const signature = 112 + 4*8 // in the optional header of 64-bit programs
	le, dos := binary.LittleEndian, p.bytes(0, dosHeader)
	if dos == nil {
		return
	}
	at := int64(le.Uint32(dos[60:]))
	coff := p.bytes(at, coffHeader)
	if coff == nil || string(coff[:4]) != "PE\x00\x00" {
		p.err = errNoProgram
		return
	}
	n := int64(le.Uint16(coff[20:]))
	optional := p.bytes(at+coffHeader, n)
	if n < signature+8 || optional == nil || le.Uint16(optional) != 0x20b {
		p.err = errNoProgram
		return
	}
	p.has(uint64(le.Uint32(optional[signature:])), uint64(le.Uint32(optional[signature+4:])))
	p.table(uint64(at+coffHeader+n), le.Uint16(coff[6:]), section, func(b []byte) { p.has(uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[16:]))) })
	const symbol = 18
	if symbols := uint64(le.Uint32(coff[12:])); symbols > 0 {
		names := symbols + symbol*uint64(le.Uint32(coff[16:])) // their length, with the length itself, comes first
		if length := p.bytes(int64(names), 4); length != nil {
			p.has(names, uint64(le.Uint32(length)))
		}
	}
}

// behindProgram returns where a pack begins behind a program in a file: 0 if the file is no program, or has no pack. A
// damaged pack counts if its first or its last bytes say what it is.
func behindProgram(file vfs.File) (base int64, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, err
	}
	p := readProgram(file, size)
	base = alignUp(p.end, programAlign)
	if !p.isProgram() || size < base+headerBytes {
		return 0, p.readError()
	}
	head, tail := make([]byte, len(headerMagic)), make([]byte, len(footerMagic))
	if _, err := file.ReadAt(head, base); err != nil {
		return 0, err
	}
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, err
	}
	if string(head) != headerMagic && string(tail) != footerMagic {
		return 0, nil
	}
	return base, nil
}

// inProgram completes an error about a pack behind a program: its offset is that in the file.
func (f *File) inProgram(err error) error {
	var format *store.FormatError
	if f.base > 0 && errors.As(err, &format) {
		format.Off += f.base
		format.Hint = "the model in the program is not as it was written: copy the program again, or bundle the model again"
	}
	return err
}

// A Program is an executable that a pack is appended to.
type Program struct {
	Path string
	FS   vfs.FS
	// MostBytes is the largest file that the program's system runs; 0 = any.
	MostBytes int64
	end       int64
}

// OpenProgram returns the program in a file, without a pack that is behind it.
func OpenProgram(fsys vfs.FS, path string) (*Program, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	p := &Program{Path: path, FS: fsys}
	if p.end, err = ProgramEnd(file, size); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return p, nil
}

// Bytes returns the length of the program with the padding before a pack.
func (p *Program) Bytes() int64 { return alignUp(p.end, programAlign) }

// ErrTooLarge reports that a system does not run a program of that size.
var ErrTooLarge = errors.New("the program would be too large to run")

// Check returns an error if a file of bytes is too large to run. p may be nil.
func (p *Program) Check(bytes int64) error {
	if p == nil || p.MostBytes == 0 || bytes <= p.MostBytes {
		return nil
	}
	return fmt.Errorf("%w: its system runs files of at most %d bytes, and it would have about %d: take a smaller model, or give the model as a file of its own", ErrTooLarge, p.MostBytes, bytes)
}

// WriteTo writes the program and the padding before a pack.
func (p *Program) WriteTo(w io.Writer) (int64, error) {
	file, err := p.FS.Open(p.Path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, err := io.Copy(w, io.NewSectionReader(file, 0, p.end))
	switch {
	case err != nil:
		return n, err
	case n != p.end:
		return n, fmt.Errorf("%s: %w: it became shorter while it was copied", p.Path, io.ErrUnexpectedEOF)
	}
	padding, err := w.Write(make([]byte, p.Bytes()-n))
	return n + int64(padding), err
}

// writeBehind writes a file atomically: p, unless it is nil, and what write adds.
func (p *Program) writeBehind(fsys vfs.FS, path string, write func(w io.Writer) error) error {
	if p == nil {
		return vfs.WriteAtomic(fsys, path, write)
	}
	return vfs.WriteExecutable(fsys, path, func(w io.Writer) error {
		if _, err := p.WriteTo(w); err != nil {
			return err
		}
		return write(w)
	})
}

// CopyBehind writes a program with a copy of the pack behind it, atomically.
func (f *File) CopyBehind(ctx context.Context, fsys vfs.FS, path string, p *Program, progress func(done, total int64)) error {
	return locked(fsys, path, func() error {
		return p.writeBehind(fsys, path, func(w io.Writer) error { return f.copyTo(ctx, w, progress) })
	})
}

// copyTo writes the bytes of the pack.
func (f *File) copyTo(ctx context.Context, w io.Writer, progress func(done, total int64)) error {
	buffer := make([]byte, min(verifyBytes, f.footer.file))
	for off := int64(0); off < f.footer.file; off += verifyBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := buffer[:min(verifyBytes, f.footer.file-off)]
		if _, err := f.file.ReadAt(p, f.base+off); err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		if progress != nil {
			progress(off+int64(len(p)), f.footer.file)
		}
	}
	return nil
}
