package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/store/vfs"
)

// asking returns streams of a terminal on which text is typed.
func asking(t *testing.T, text string) (*cli.Streams, *bytes.Buffer) {
	in, typed, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { in.Close() })
	_, err = typed.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, typed.Close())
	screen := &bytes.Buffer{}
	return &cli.Streams{In: in, Err: screen, InTerminal: true, ErrTerminal: true}, screen
}

// TestPullAsks asks on a terminal before it downloads a model that does not run here.
func TestPullAsks(t *testing.T) {
	data, err := os.ReadFile(shapedModel(t, "tiny"))
	require.NoError(t, err)
	server := hubserver.New(t)
	server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	client := &hub.Client{Endpoint: server.URL}
	ref, err := hub.ParseReference("hf:o/m")
	require.NoError(t, err)
	ctx := context.Background()
	remote, err := client.Find(ctx, ref)
	require.NoError(t, err)
	store := &hub.Store{FS: vfs.NewMem(), Dir: "models"}
	for typed, want := range map[string]error{"y\n": nil, "YES\n": nil, "n\n": errNotDownloaded, "\n": errNotDownloaded, "": errNotDownloaded} {
		p := pullFlags{}
		p.model.ram.bytes = 1 << 20
		s, screen := asking(t, typed)
		require.ErrorIs(t, p.consider(ctx, s, client, store, remote), want, typed)
		require.Contains(t, screen.String(), "on this machine with --ram 1.0 MiB: it does not run: it needs at least ")
		require.Contains(t, screen.String(), "Download it all the same? [y/N] ")
	}
}

// TestPullSaysHowMuchIsResident is about the line before the download for a model of which only a part stays in memory.
func TestPullSaysHowMuchIsResident(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(layered(t, 8, 4096, false), "m.gguf"))
	require.NoError(t, err)
	server := hubserver.New(t)
	server.AddRepo("o/m", map[string][]byte{"m-Q8_0.gguf": data, "m-Q4_0.gguf": data[:len(data)/2]})
	client := &hub.Client{Endpoint: server.URL}
	ref, err := hub.ParseReference("hf:o/m:Q8_0")
	require.NoError(t, err)
	ctx := context.Background()
	remote, err := client.Find(ctx, ref)
	require.NoError(t, err)
	store := &hub.Store{FS: vfs.NewMem(), Dir: "models"}
	p := pullFlags{yes: true}
	p.model.ram.bytes = 1 << 20
	poor, err := foresee(ctx, client, remote, p.model.ram)
	require.NoError(t, err)
	var minimum *llmrun.MinimumError
	require.ErrorAs(t, poor.err, &minimum)
	p.model.ram.bytes = minimum.Minimum
	s, screen := asking(t, "")
	require.NoError(t, p.consider(ctx, s, client, store, remote))
	require.Regexp(t, `^llmrun: m-Q8_0: \d+\.\d [KM]iB; on this machine with --ram \d+\.\d MiB: \d?\d % resident, about \d\S* tok/s; smaller: Q4_0 \d+\.\d [KM]iB`, screen.String())
}

// TestPullStoppedSaysHowToGoOn stops a download: the note says what is kept, and which command continues.
func TestPullStoppedSaysHowToGoOn(t *testing.T) {
	data := hubserver.Content(3<<20, 1)
	server := hubserver.New(t)
	server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	client := &hub.Client{Endpoint: server.URL}
	ref, err := hub.ParseReference("hf:o/m")
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	remote, err := client.Find(ctx, ref)
	require.NoError(t, err)
	hex := strings.TrimPrefix(remote.Files[0].Digest, "sha256:")
	named := pullFlags{name: "fox", sha256: hex}
	require.NoError(t, named.adjust(remote))
	server.DropAfter, server.Drops = 1<<20, 1
	server.Before = func(r *http.Request) {
		if r.Header.Get("Range") != "" { // the connection that would bring the rest
			cancel(cli.ErrInterrupted)
			<-r.Context().Done() // until the client has closed it
		}
	}
	client.Pause = func(context.Context, time.Duration) error { return nil }
	store := &hub.Store{FS: vfs.NewMem(), Dir: "models"}
	s, screen := asking(t, "")
	_, err = download(ctx, s, client, store, remote)
	require.ErrorIs(t, err, cli.ErrInterrupted)
	require.Contains(t, screen.String(), "llmrun: 1.0 MiB of 3.0 MiB are kept; llmrun pull hf:o/m --name fox --sha256 "+hex+" continues, and llmrun models rm fox deletes them\n")
	_, unfinished, err := store.Models()
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), unfinished[0].Done)
	require.Equal(t, "hf:o/m --name fox --sha256 "+hex, unfinished[0].From)
	server.Before = nil
	m, err := download(context.Background(), s, client, store, remote)
	require.NoError(t, err)
	require.Equal(t, int64(len(data)), m.Bytes)
	require.True(t, strings.HasSuffix(m.Path, "fox.gguf"))
}
