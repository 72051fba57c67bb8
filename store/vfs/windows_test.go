package vfs

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// randomBytes returns n bytes that differ from place to place.
func randomBytes(n int) []byte {
	random, b := rand.New(rand.NewPCG(1, uint64(n))), make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// openMapped returns a file with mapped reads.
func openMapped(t *testing.T, name string) File {
	t.Helper()
	mapped := &MappedReads{}
	fsys := WithMappedReads(OS(), mapped)
	f, err := OpenDirect(fsys, name)
	require.NoError(t, err)
	require.IsType(t, &directFile{}, f, "not enabled yet")
	require.NoError(t, f.Close())
	mapped.Enable()
	f, err = OpenDirect(fsys, name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	require.IsType(t, &mappedFile{}, f)
	require.False(t, Queueable(f))
	return f
}

func TestMappedReadsReturnTheBytes(t *testing.T) {
	name, content := filepath.Join(t.TempDir(), "file"), randomBytes(3*windowBytes+12345)
	require.NoError(t, os.WriteFile(name, content, 0o600))
	f := openMapped(t, name)
	size := int64(len(content))
	for _, c := range []struct{ off, n int64 }{
		{0, size}, {0, 1}, {4095, 2}, {windowBytes - 1, windowBytes + 2}, {mapAlign + 7, 2 * windowBytes}, {size - 1, 1}, {77, 0},
	} {
		got := make([]byte, c.n)
		n, err := f.ReadAt(got, c.off)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, int(c.n), n)
		require.Equal(t, content[c.off:c.off+c.n], got, "%+v", c)
	}
	for _, c := range []struct {
		off  int64
		want int
	}{{size - 10, 10}, {size, 0}, {size + 1<<20, 0}} {
		n, err := f.ReadAt(make([]byte, 100), c.off)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, c.want, n)
	}
	_, err := f.ReadAt(make([]byte, 1), -1)
	require.ErrorIs(t, err, os.ErrInvalid)
	p := make([]byte, windowBytes)
	require.Zero(t, testutil.AllocsPerRun(20, 0, func() {
		if _, err := f.ReadAt(p, 12345); err != nil {
			t.Fatal(err)
		}
	}))
}

// TestMappedReadOfShorterFile maps a part that the file has lost since its size was determined.
func TestMappedReadOfShorterFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, randomBytes(2*mapAlign), 0o600))
	f := openMapped(t, name).(*mappedFile)
	require.NoError(t, os.Truncate(name, mapAlign))
	err := f.readWindow(make([]byte, 100), mapAlign+50_000, 2*mapAlign)
	require.ErrorIs(t, err, errShrunk)
	require.ErrorContains(t, err, name)
	_, err = f.ReadAt(make([]byte, 100), mapAlign+50_000)
	require.ErrorIs(t, err, io.EOF)
}

// TestMappedScratchIsCoherent writes and reads a temporary file at the same time.
func TestMappedScratchIsCoherent(t *testing.T) {
	mapped := &MappedReads{}
	mapped.Enable()
	f, err := Scratch(WithMappedReads(OS(), mapped), t.TempDir())
	require.NoError(t, err)
	defer f.Close()
	const part = 100_000
	content := randomBytes(20 * part)
	require.NoError(t, Allocate(f, int64(len(content))))
	var readers sync.WaitGroup
	for round := range 3 { // overwrites what was read before
		for i := range 20 {
			at := (i*7 + round) % 20 * part
			_, err := f.WriteAt(content[i*part:(i+1)*part], int64(at))
			require.NoError(t, err)
			readers.Go(func() {
				got := make([]byte, part)
				_, err := f.ReadAt(got, int64(at))
				if err != nil || string(got) != string(content[i*part:(i+1)*part]) {
					t.Errorf("round %d, part at %d: wrong bytes, %v", round, at, err)
				}
			})
		}
		readers.Wait()
	}
}

func TestMappedReadsOfOtherFileSystems(t *testing.T) {
	mem := NewMem()
	require.Same(t, mem, WithMappedReads(mem, &MappedReads{}))
	require.NoError(t, WriteFile(mem, "m", randomBytes(4<<20)))
	require.False(t, MappedIsFaster(mem, "m", 1<<40))
	require.False(t, MappedIsFaster(OS(), filepath.Join(t.TempDir(), "absent"), 1<<40))
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, randomBytes(1000), 0o600))
	require.False(t, MappedIsFaster(OS(), name, 1<<40), "too short for a comparison")
}

// TestMappedReadsOfEmbeddedFile maps windows of the test program.
func TestMappedReadsOfEmbeddedFile(t *testing.T) {
	mapped := &MappedReads{}
	mapped.Enable()
	fsys := WithMappedReads(FromIOFS(Embedded("this.go", embeddedTest)), mapped)
	require.True(t, ReadsMapped(Throttled(fsys, 0, 0)))
	f, err := OpenDirect(fsys, "this.go")
	require.NoError(t, err)
	require.IsType(t, &embeddedMapped{}, f)
	got := make([]byte, 500)
	_, err = f.ReadAt(got, 100)
	require.NoError(t, err)
	require.Equal(t, embeddedTest[100:600], string(got))
	n, err := f.ReadAt(got, int64(len(embeddedTest)-10))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, embeddedTest[len(embeddedTest)-10:], string(got[:n]))
	_, err = f.ReadAt(got, -1)
	require.Error(t, err)
	require.NoError(t, f.Close())
}
