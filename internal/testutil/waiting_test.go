package testutil

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// failing records the failure that a helper reports instead of failing the test.
type failing struct {
	testing.TB

	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, values ...any) {
	f.message = fmt.Sprintf(format, values...)
	runtime.Goexit()
}

func TestEventually(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   time.Duration // when the condition begins to hold
		message string
	}{
		{name: "at once"},
		{name: "after half a minute", after: 30 * time.Second},
		{name: "never", after: time.Hour, message: "waited 1m0s in vain: the answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, done, begin := &failing{TB: t}, make(chan struct{}), time.Now()
				go func() {
					defer close(done)
					Eventually(tb, "the answer", func() bool { return time.Since(begin) >= c.after })
				}()
				<-done
				require.Equal(t, c.message, tb.message)
			})
		})
	}
}

// TestNextFileTimeIsLater checks that a change after the wait has a later time than one just before it.
func TestNextFileTimeIsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	changed := func(text string) int64 {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	for range 3 {
		before := changed("a")
		NextFileTime(t)
		if after := changed("b"); after <= before {
			t.Errorf("a change at %d, the next one at %d", before, after)
		}
	}
}
