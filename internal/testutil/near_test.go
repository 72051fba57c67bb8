package testutil

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// failed is a test that records how it ended.
type failed struct {
	testing.TB
	message string
}

func (*failed) Helper() {}

func (f *failed) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestRequireNear(t *testing.T) {
	message := func(want []float32, got []float64) string {
		f := &failed{}
		done := make(chan bool)
		go func() {
			defer close(done)
			RequireNear(f, want, got, 0.5, "token %d", 3)
		}()
		<-done
		return f.message
	}
	want := []float32{1, 2, 3}
	require.Empty(t, message(want, []float64{1.5, 1.5, 3}))
	require.Equal(t, "element 1 is 2.75, want 2: off by 0.75, allowed 0.5: token 3", message(want, []float64{1, 2.75, 9}))
	require.Contains(t, message(want, []float64{1, 2, math.NaN()}), "element 2 is NaN")
	require.Contains(t, message(want, []float64{1, 2, math.Inf(-1)}), "element 2 is -Inf")
	require.Equal(t, "2 elements, want 3: token 3", message(want, []float64{1, 2}))
}
