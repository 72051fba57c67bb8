package testutil

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seedVariable repeats a test with the seed that a failed run printed.
const seedVariable = "LLMRUN_TEST_SEED"

// Random returns random numbers for a test. Their seed depends only on the name of the test, so that each run takes
// the same cases. With LLMRUN_TEST_LONG each run takes others, and LLMRUN_TEST_SEED repeats those of a seed. A
// failed test prints its seed.
func Random(tb testing.TB) *rand.Rand {
	tb.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(tb.Name())) // it never fails
	seed := name.Sum64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("%s: %v", seedVariable, err)
		}
	} else if os.Getenv("LLMRUN_TEST_LONG") != "" {
		seed = rand.Uint64()
	}
	tb.Logf("%s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 1))
}
