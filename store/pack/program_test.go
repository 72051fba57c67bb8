package pack

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// put writes numbers into a header: pairs of an offset and a value of 2, 4 or 8 bytes.
func put(b []byte, values map[int]any) []byte {
	for off, v := range values {
		if _, err := binary.Encode(b[off:], binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b
}

// elfProgram is an executable of n bytes that ends with its table of sections.
func elfProgram(n int) []byte {
	b := make([]byte, n)
	copy(b, "\x7fELF\x02\x01")
	put(b, map[int]any{32: uint64(64), 40: uint64(n - 128), 54: uint16(56), 56: uint16(1), 58: uint16(64), 60: uint16(2)})
	put(b, map[int]any{64 + 8: uint64(0), 64 + 32: uint64(200)})                                      // a segment
	put(b, map[int]any{n - 128 + 4: uint32(1), n - 128 + 24: uint64(200), n - 128 + 32: uint64(100)}) // a section
	put(b, map[int]any{n - 64 + 4: uint32(8), n - 64 + 24: uint64(300), n - 64 + 32: uint64(1 << 40)})
	return b
}

// machOProgram is an executable of n bytes, whose second segment ends it.
func machOProgram(n int) []byte {
	b := make([]byte, n)
	put(b, map[int]any{0: uint32(0xfeedfacf), 16: uint32(3), 20: uint32(72 + 16 + 72)})
	put(b, map[int]any{32: uint32(0x19), 36: uint32(72), 32 + 40: uint64(0), 32 + 48: uint64(500)})
	put(b, map[int]any{104: uint32(0x32), 108: uint32(16)})
	put(b, map[int]any{120: uint32(0x19), 124: uint32(72), 120 + 40: uint64(500), 120 + 48: uint64(n - 500)})
	return b
}

// peProgram is an executable of n bytes that ends with the names of its symbols.
func peProgram(n int) []byte {
	b := make([]byte, n)
	copy(b, "MZ")
	put(b, map[int]any{60: uint32(128)})
	copy(b[128:], "PE\x00\x00")
	put(b, map[int]any{128 + 6: uint16(1), 128 + 12: uint32(n - 40), 128 + 16: uint32(2), 128 + 20: uint16(240), 152: uint16(0x20b)})
	put(b, map[int]any{152 + 240 + 16: uint32(100), 152 + 240 + 20: uint32(500)})
	return put(b, map[int]any{n - 4: uint32(4)})
}

func TestProgramEnd(t *testing.T) {
	const n = 1000
	for name, program := range map[string][]byte{"ELF": elfProgram(n), "Mach-O": machOProgram(n), "PE": peProgram(n)} {
		t.Run(name, func(t *testing.T) {
			behind := append(bytes.Clone(program), make([]byte, 77)...)
			end, err := ProgramEnd(bytes.NewReader(behind), int64(len(behind)))
			require.NoError(t, err)
			require.EqualValues(t, n, end)
			for cut := range len(program) {
				_, err := ProgramEnd(bytes.NewReader(program[:cut]), int64(cut))
				require.Error(t, err, "%d bytes", cut)
			}
		})
	}
	t.Run("signed", func(t *testing.T) {
		b := append(peProgram(n), make([]byte, 50)...)
		put(b, map[int]any{152 + 144: uint32(n + 10), 152 + 148: uint32(40)})
		end, err := ProgramEnd(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		require.EqualValues(t, n+50, end)
	})
	t.Run("other", func(t *testing.T) {
		for _, b := range [][]byte{nil, []byte("#!/bin/sh\n"), []byte(headerMagic), []byte("\x7fELF\x01\x01"), []byte("MZ")} {
			_, err := ProgramEnd(bytes.NewReader(b), int64(len(b)))
			require.ErrorIs(t, err, errNoProgram, "%q", b)
		}
	})
	t.Run("overflow", func(t *testing.T) {
		b := put(elfProgram(n), map[int]any{64 + 8: uint64(1) << 63, 64 + 32: uint64(1) << 63})
		_, err := ProgramEnd(bytes.NewReader(b), n)
		require.ErrorIs(t, err, errNoProgram)
	})
}

// TestOwnProgramEnd finds the end of the test binary, which the linker of this system has written.
func TestOwnProgramEnd(t *testing.T) {
	path, err := os.Executable()
	require.NoError(t, err)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	end, err := ProgramEnd(f, info.Size())
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size()-end, int64(15), "bytes behind the program, which are no padding")
}

func FuzzProgramEnd(f *testing.F) {
	for _, b := range [][]byte{elfProgram(1000), machOProgram(1000), peProgram(1000)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if end, err := ProgramEnd(bytes.NewReader(b), int64(len(b))); err == nil && (end < 0 || end > int64(len(b))) {
			t.Errorf("the program ends at %d of %d bytes", end, len(b))
		}
	})
}

// writeBytes writes a file of a file system in memory.
func writeBytes(t *testing.T, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	require.NoError(t, vfs.WriteFile(fsys, name, data))
}

// openNamed opens a pack, or a program with one behind it.
func openNamed(t *testing.T, fsys vfs.FS, name string) *File {
	t.Helper()
	f, err := Open(fsys, name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// TestPackBehindProgram writes a pack behind programs, as an import and as a copy, and reads it there as by itself.
func TestPackBehindProgram(t *testing.T) {
	s := large()
	for name, program := range map[string][]byte{
		"ELF": elfProgram(1000), "Mach-O": machOProgram(3 * programAlign), "PE": peProgram(programAlign - 1),
	} {
		t.Run(name, func(t *testing.T) {
			fsys := s.write(t)
			writeBytes(t, fsys, "program", program)
			p, err := OpenProgram(fsys, "program")
			require.NoError(t, err)
			require.False(t, Is(fsys, "program"))
			alone := open(t, fsys)

			contents := s.Contents
			contents.Program = p
			require.NoError(t, Write(fsys, "imported", contents, s.body))
			require.NoError(t, alone.CopyBehind(context.Background(), fsys, "copied", p, nil))
			whole, err := vfs.ReadFile(fsys, "imported", 1<<30)
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix(whole, program))
			copied, err := vfs.ReadFile(fsys, "copied", 1<<30)
			require.NoError(t, err)
			require.True(t, bytes.Equal(whole, copied))

			// A program with a pack behind it is the same program again.
			again, err := OpenProgram(fsys, "copied")
			require.NoError(t, err)
			behind := openNamed(t, fsys, "copied")
			require.NoError(t, behind.CopyBehind(context.Background(), fsys, "twice", again, nil))
			twice, err := vfs.ReadFile(fsys, "twice", 1<<30)
			require.NoError(t, err)
			require.True(t, bytes.Equal(whole, twice))

			require.True(t, Is(fsys, "copied"))
			require.NoError(t, behind.BypassCache())
			require.NoError(t, behind.Verify(context.Background(), nil))
			require.Equal(t, alone.Identity(), behind.Identity())
			require.Equal(t, alone.Size(), behind.Size())
			s.check(t, behind)
		})
	}
}

// TestDamagedPackBehindProgram changes bytes of the file behind the program. Errors have the offset in the file.
func TestDamagedPackBehindProgram(t *testing.T) {
	s := small()
	fsys := s.write(t)
	writeBytes(t, fsys, "program", elfProgram(1000))
	p, err := OpenProgram(fsys, "program")
	require.NoError(t, err)
	require.NoError(t, open(t, fsys).CopyBehind(context.Background(), fsys, "sound", p, nil))
	sound, err := vfs.ReadFile(fsys, "sound", 1<<30)
	require.NoError(t, err)
	size := len(sound)
	for name, c := range map[string]struct {
		at  int // the changed byte
		off int64
	}{
		"magic":      {programAlign, programAlign},
		"header":     {programAlign + 20, programAlign},
		"attachment": {programAlign + headerBytes + 3, programAlign + headerBytes},
		"padding":    {programAlign + headerBytes + 100, programAlign + headerBytes + 100},
		"index":      {size - footerBytes - 5, -1},
		"footer":     {size - 20, int64(size - footerBytes)},
		"end":        {size - 1, int64(size - footerBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := bytes.Clone(sound)
			damaged[c.at] ^= 1
			writeBytes(t, fsys, "damaged", damaged)
			require.True(t, Is(fsys, "damaged"))
			f, err := Open(fsys, "damaged")
			if err == nil {
				err = f.Verify(context.Background(), nil)
				require.NoError(t, f.Close())
			}
			var format *store.FormatError
			require.ErrorAs(t, err, &format)
			require.ErrorIs(t, err, store.ErrFormat)
			require.Equal(t, "damaged", format.Path)
			if c.off >= 0 {
				require.Equal(t, c.off, format.Off)
			} else {
				require.Greater(t, format.Off, int64(programAlign))
			}
			require.Contains(t, format.Hint, "copy the program again")
		})
	}
	for _, cut := range []int{programAlign + headerBytes, size / 2, size - 1} {
		writeBytes(t, fsys, "short", sound[:cut])
		_, err := Open(fsys, "short")
		require.ErrorIs(t, err, store.ErrFormat, "%d of %d bytes", cut, size)
	}
}

// TestProgramsAreExecutable writes to a disk, where the file can be run, and leaves no other file.
func TestProgramsAreExecutable(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(program, elfProgram(1000), 0o600))
	p, err := OpenProgram(vfs.OS(), program)
	require.NoError(t, err)
	s := small()
	s.Program = p
	out := filepath.Join(dir, "out")
	require.NoError(t, Write(vfs.OS(), out, s.Contents, s.body))
	info, err := os.Stat(out)
	require.NoError(t, err)
	if info.Mode().Perm()&0o111 == 0 && filepath.Separator == '/' {
		t.Errorf("the mode of the program is %v", info.Mode())
	}
	require.Error(t, Write(vfs.OS(), filepath.Join(dir, "failed"), s.Contents, func(io.Writer) error { return io.ErrShortWrite }))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
