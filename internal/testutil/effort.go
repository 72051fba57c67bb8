package testutil

import "os"

// Effort returns brief for a test that runs while a change is made, and thorough if the variable
// LLMRUN_TEST_SWEEP is set: numbers of cases, or the stride between them.
func Effort(brief, thorough int) int {
	if os.Getenv("LLMRUN_TEST_SWEEP") != "" {
		return thorough
	}
	return brief
}
