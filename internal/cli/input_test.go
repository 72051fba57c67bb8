package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadAllRefusesHugeInput checks that an input above the maximum is refused, and that the
// error names the flag and the maximum.
func TestReadAllRefusesHugeInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(MaxInput+1))
	_, err = ReadAll(&Streams{In: file}, "-f", "-")
	require.EqualError(t, err, "-f: standard input has more than 64.0 MiB of text, the maximum; split it")
	_, err = ReadAll(&Streams{}, "-f", path)
	require.ErrorContains(t, err, path+" has more than 64.0 MiB")

	_, err = ReadUpTo(&Streams{}, "-f", path, 3, nil)
	require.ErrorIs(t, err, ErrTooLong)
	_, err = ReadUpTo(&Streams{In: file}, "-f", "-", 3, nil)
	require.ErrorIs(t, err, ErrTooLong)

	require.NoError(t, file.Truncate(3))
	text, err := ReadAll(&Streams{}, "-f", path)
	require.NoError(t, err)
	require.Equal(t, "\x00\x00\x00", text)
}
