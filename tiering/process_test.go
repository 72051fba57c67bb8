package tiering_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/tiering"
)

// TestProcessorTimeGrows checks that the work of this process counts.
func TestProcessorTimeGrows(t *testing.T) {
	begin := tiering.ProcessorTime()
	testutil.Eventually(t, "the processor time grows while the test runs", func() bool { return tiering.ProcessorTime() > begin })
}

func TestResidentMeterAllocatesNothing(t *testing.T) {
	m, err := tiering.NewResidentMeter()
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	require.Zero(t, testutil.AllocsPerRun(10, 0, func() { m.Read() }))
}
