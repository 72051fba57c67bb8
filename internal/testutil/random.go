package testutil

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// seedVariable is the environment variable that repeats a test with the seed that a failed run printed.
const seedVariable = "LLMRUN_TEST_SEED"

// Random returns random numbers for a test. Their seed depends only on the name of the test, so that each run takes
// the same cases. With LLMRUN_TEST_LONG each run takes others, and LLMRUN_TEST_SEED repeats those of a seed. A
// failed test prints its seed.
func Random(tb testing.TB) *rand.Rand {
	tb.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(tb.Name())) // it never fails
	seed := name.Sum64()
	if given, ok := givenSeed(tb); ok {
		seed = given
	} else if os.Getenv("LLMRUN_TEST_LONG") != "" {
		seed = rand.Uint64()
	}
	tb.Logf("%s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// givenSeed returns the seed of LLMRUN_TEST_SEED, if it is set.
func givenSeed(tb testing.TB) (seed uint64, ok bool) {
	tb.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", seedVariable, err)
	}
	return seed, true
}

// EachSeed runs a test for each of some seeds and, with LLMRUN_TEST_SWEEP, for more random ones. With LLMRUN_TEST_SEED it
// runs one instead. A seed that fails prints how to repeat it, and its notes. EachSeed reports whether all seeds passed,
// so that the caller can check what they cover together; it does not for one that is repeated.
func EachSeed(t *testing.T, seeds []uint64, more int, run func(t *testing.T, seed uint64, notes *Notes)) (all bool) {
	t.Helper()
	seed, repeated := givenSeed(t)
	if repeated {
		seeds = []uint64{seed}
	} else if more = Effort(0, more); more > 0 {
		seeds = slices.Clone(seeds)
		for random := Random(t); more > 0; more-- {
			seeds = append(seeds, random.Uint64N(1<<48))
		}
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(sub *testing.T) {
			notes := &Notes{}
			sub.Cleanup(func() {
				if sub.Failed() {
					sub.Logf("to repeat it here: %s=%d go test -run '^%s$'\n%s", seedVariable, seed, t.Name(), notes)
				}
			})
			run(sub, seed, notes)
		})
	}
	return !repeated && !t.Failed()
}

// Notes describe what a test does with a seed, in lines. Goroutines may add to them at the same time.
type Notes struct {
	mu   sync.Mutex
	text strings.Builder
}

// Note adds a line.
func (n *Notes) Note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(&n.text, format+"\n", args...)
}

// String returns the lines.
func (n *Notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}
