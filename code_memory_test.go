package llmrun

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// openRecorder records when the first file is opened.
type openRecorder struct {
	fs.FS
	opened func()
}

func (r openRecorder) Open(name string) (fs.File, error) {
	r.opened()
	return r.FS.Open(name)
}

// TestCodeIsReservedBeforeFilesAreRead checks that a plan and an engine measure the program's code at the same moment,
// before anything else: measured later, more of it is resident, and the plan would refuse what runs.
func TestCodeIsReservedBeforeFilesAreRead(t *testing.T) {
	measure := codeBytes
	defer func() { codeBytes = measure }()
	var steps []string
	codeBytes = func() int64 { steps = append(steps, "code"); return codeLeast }
	opts := Options{FS: openRecorder{os.DirFS("cmd/llmrun/bundled"), func() { steps = append(steps, "file") }}, Memory: MemoryOptions{RAM: 1 << 20}}
	_, err := Open("model.pack", opts)
	require.ErrorIs(t, err, ErrBudget)
	require.Equal(t, "code", steps[0])
	steps = nil
	_, err = PlanMemory(t.Context(), "model.pack", opts, PlanOptions{})
	require.ErrorIs(t, err, ErrBudget)
	require.Equal(t, "code", steps[0])
}

// TestCodeMemory checks that a program with more code than llmrun reserves what is resident,
// and that small differences between two processes do not matter.
func TestCodeMemory(t *testing.T) {
	for resident, want := range map[int64]int64{
		0: 13 << 20, 10 << 20: 13 << 20, 18 << 20: 13 << 20,
		18<<20 + 1: 20 << 20, 31 << 20: 32 << 20, 32 << 20: 36 << 20,
	} {
		require.Equal(t, want, codeMemory(resident), "%d", resident)
	}
}
