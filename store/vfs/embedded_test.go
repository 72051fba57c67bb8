package vfs

import (
	_ "embed"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

//go:embed embedded_test.go
var embeddedTest string

func TestEmbeddedFileIsReadFromTheProgram(t *testing.T) {
	e := Embedded("this.go", embeddedTest).(*embeddedFS)
	require.NoError(t, fstest.TestFS(e, "this.go"))
	at := e.find()
	if runtime.GOOS == "linux" {
		require.Equal(t, "/proc/self/exe", at.path)
	}
	require.NotEmpty(t, at.path)
	require.Equal(t, at.off, e.search().off, "searching the program finds another place")
	requireReads(t, e)
}

// TestEmbeddedFileWithoutTheProgram reads a string that is not in the program's file.
func TestEmbeddedFileWithoutTheProgram(t *testing.T) {
	made := embeddedTest + strings.Repeat("?", embeddedEdge) // its end is nowhere in the file
	e := Embedded("this.go", made).(*embeddedFS)
	require.Empty(t, e.find().path)
	require.NoError(t, fstest.TestFS(e, "this.go"))
}

// TestReleasedPagesAreReadAgain reads the string itself, whose pages leave the process after
// each read.
func TestReleasedPagesAreReadAgain(t *testing.T) {
	e := &embeddedFS{name: "this.go", data: embeddedTest, find: func() place { return place{} }}
	requireReads(t, e)
}

// requireReads compares ranges of the file with the string.
func requireReads(t *testing.T, e fs.FS) {
	f, err := FromIOFS(e).Open("this.go")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, len(embeddedTest), size)
	random := testutil.Random(t)
	for range 100 {
		from := random.IntN(len(embeddedTest))
		p := make([]byte, random.IntN(len(embeddedTest)-from)+1)
		_, err := f.ReadAt(p, int64(from))
		require.NoError(t, err)
		require.Equal(t, embeddedTest[from:from+len(p)], string(p))
	}
}
