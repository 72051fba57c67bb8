package llmrun

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoreErrorsAreReportedOnce checks that a full disk is reported once, whatever the
// sizes, and each other error once.
func TestStoreErrorsAreReportedOnce(t *testing.T) {
	var reports []string
	store := &sessionStore{reported: map[string]bool{}, notify: func(text string) { reports = append(reports, text) }}
	damaged := errors.New("damaged")
	for free := range 3 {
		store.report(fmt.Errorf("%w: %d bytes", ErrNoRoom, free))
		store.report(damaged)
		store.report(nil)
	}
	store.report(errors.New("damaged at another offset"))
	require.Len(t, reports, 3)
	require.Contains(t, reports[0], "0 bytes")
}
