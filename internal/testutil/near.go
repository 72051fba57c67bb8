package testutil

import (
	"fmt"
	"math"
	"testing"
)

// RequireNear ends a test if an element of got differs from that of want by more than a tolerance, or is not a number.
// It is for logits and other long rows: comparing an element takes no assertion of its own, which would cost more than
// computing it.
func RequireNear[W, G float32 | float64](tb testing.TB, want []W, got []G, tolerance float64, format string, args ...any) {
	tb.Helper()
	if len(want) != len(got) {
		tb.Fatalf("%d elements, want %d: %s", len(got), len(want), fmt.Sprintf(format, args...))
	}
	for i, w := range want {
		if off := math.Abs(float64(got[i]) - float64(w)); !(off <= tolerance) {
			tb.Fatalf("element %d is %g, want %g: off by %g, allowed %g: %s", i, got[i], w, off, tolerance, fmt.Sprintf(format, args...))
		}
	}
}
