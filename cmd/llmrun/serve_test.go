package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// TestServeWritesNothing checks that --no-import keeps also the bundled model from the cache directory, as its help says.
func TestServeWritesNothing(t *testing.T) {
	for _, off := range []bool{true, false} {
		v := &serveFlags{}
		v.cache.off, v.cache.dir = off, t.TempDir()
		o, err := v.options(&cli.Streams{})
		require.NoError(t, err)
		require.Len(t, o.Models, 1)
		require.Equal(t, off, o.Models[0].Options.Cache.KVDir == "")
	}
}
