package llmrun

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Want of room is told once, whatever the figures; other troubles once each.
func TestStoreErrorsAreReportedOnce(t *testing.T) {
	var told []string
	k := &sessionStore{reported: map[string]bool{}, notify: func(text string) { told = append(told, text) }}
	damaged := errors.New("damaged")
	for free := range 3 {
		k.report(fmt.Errorf("%w: %d bytes", ErrNoRoom, free))
		k.report(damaged)
		k.report(nil)
	}
	k.report(errors.New("damaged elsewhere"))
	require.Len(t, told, 3)
	require.Contains(t, told[0], "0 bytes")
}
