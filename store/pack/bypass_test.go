package pack

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBypassCacheConcurrentWithReads opens the pack for direct reads while others read, as those of embedding rows of a pass
// that was cancelled do. The race detector sees whether they read a file that is half set.
func TestBypassCacheConcurrentWithReads(t *testing.T) {
	s := large()
	f := open(t, s.write(t))
	var readers sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range cap(begun) {
		readers.Go(func() {
			for i := range 3 {
				for name, want := range s.plain {
					tensor, _ := f.Tensor(name)
					got := make([]byte, tensor.Size)
					if _, err := f.ReadAt(tensor, got, 0); err != nil || !bytes.Equal(want, got) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if i == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	require.NoError(t, f.BypassCache())
	readers.Wait()
}
