package testutil

import "testing"

func TestRandomRepeats(t *testing.T) {
	t.Setenv("LLMRUN_TEST_LONG", "")
	t.Setenv(seedVariable, "")
	if a, b := Random(t).Uint64(), Random(t).Uint64(); a != b {
		t.Errorf("%d, then %d: a test must take the same numbers in each run", a, b)
	}
	t.Run("other", func(other *testing.T) {
		if a, b := Random(t).Uint64(), Random(other).Uint64(); a == b {
			t.Errorf("%d twice: tests must take different numbers", a)
		}
	})
	t.Setenv("LLMRUN_TEST_LONG", "1")
	if a, b := Random(t).Uint64(), Random(t).Uint64(); a == b {
		t.Errorf("%d twice: a long test must take other numbers in each run", a)
	}
	t.Setenv(seedVariable, "7")
	if a, b := Random(t).Uint64(), Random(t).Uint64(); a != b {
		t.Errorf("%d, then %d with the same seed", a, b)
	}
}
