package testutil

import (
	"fmt"
	"slices"
	"testing"
)

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

func TestEachSeed(t *testing.T) {
	ran := func(seeds ...uint64) (got []uint64, all bool) {
		all = EachSeed(t, seeds, 3, func(t *testing.T, seed uint64, notes *Notes) {
			got = append(got, seed)
			notes.Note("seed %d", seed)
			notes.Note("%s.", t.Name())
			if want := fmt.Sprintf("seed %d\n%s.\n", seed, t.Name()); notes.String() != want {
				t.Errorf("notes %q instead of %q", notes, want)
			}
		})
		return got, all
	}
	t.Setenv(seedVariable, "")
	t.Setenv("LLMRUN_TEST_SWEEP", "")
	if got, all := ran(5, 2); !slices.Equal(got, []uint64{5, 2}) || !all {
		t.Errorf("seeds %v, all: %v", got, all)
	}
	t.Setenv("LLMRUN_TEST_SWEEP", "1")
	if got, all := ran(5, 2); len(got) != 5 || !slices.Equal(got[:2], []uint64{5, 2}) || !all {
		t.Errorf("seeds %v of a sweep, all: %v", got, all)
	}
	t.Setenv(seedVariable, "7")
	if got, all := ran(5, 2); !slices.Equal(got, []uint64{7}) || all {
		t.Errorf("seeds %v when 7 is repeated, all: %v", got, all)
	}
}
