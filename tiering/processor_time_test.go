package tiering

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProcessorTimeIsSummed reads the files of several threads, of which some have ended or have no valid
// content.
func TestProcessorTimeIsSummed(t *testing.T) {
	require.Equal(t, 1005*time.Nanosecond, ReadProcessorTime(fstest.MapFS{
		"proc/self/task/1/schedstat": {Data: []byte("1000 20 7\n")},
		"proc/self/task/2/schedstat": {Data: []byte("5 300 1\n")},
		"proc/self/task/3/schedstat": {Data: []byte("")},
		"proc/self/task/4/schedstat": {Data: []byte("x 1 1\n")},
		"proc/self/task/5/stat":      {Data: []byte("9 9 9\n")},
	}))
	require.Zero(t, ReadProcessorTime(fstest.MapFS{}))
}
