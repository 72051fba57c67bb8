package vfs

import (
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadKeyFile reads the forms of a key, and files that are none.
func TestReadKeyFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	want := testKey(3)
	for _, form := range []string{
		string(want[:]), hex.EncodeToString(want[:]), hex.EncodeToString(want[:]) + "\r\n",
		base64.StdEncoding.EncodeToString(want[:]) + "\n", base64.RawURLEncoding.EncodeToString(want[:]),
	} {
		require.NoError(t, os.WriteFile(name, []byte(form), 0o600))
		got, err := ReadKeyFile(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []struct{ data, reason string }{
		{"", "it has 0 bytes"},
		{string(want[:31]), "it has 31 bytes"},
		{string(want[:]) + "\x00", "it has 33 bytes"},
		{hex.EncodeToString(want[:16]), "not random"},
		{hex.EncodeToString(want[:]) + "0", "it has 65 bytes"},
		{"correct horse battery staple 123", "not random"},
		{string(make([]byte, 32)), "not random"},
		{string(make([]byte, 2000)), "longer than 1024 bytes"},
	} {
		require.NoError(t, os.WriteFile(name, []byte(bad.data), 0o600))
		_, err := ReadKeyFile(name)
		require.ErrorIs(t, err, ErrKeyFile)
		require.ErrorContains(t, err, bad.reason)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "head -c 32")
	}
	_, err := ReadKeyFile(filepath.Dir(name))
	require.ErrorIs(t, err, ErrKeyFile)
	_, err = ReadKeyFile(name + "x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	if runtime.GOOS == "windows" {
		return
	}
	require.NoError(t, os.WriteFile(name, want[:], 0o600))
	require.NoError(t, os.Chmod(name, 0o640))
	_, err = ReadKeyFile(name)
	require.ErrorIs(t, err, ErrKeyFile)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(name, 0o400))
	_, err = ReadKeyFile(name)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(name, name+"-link"))
	_, err = ReadKeyFile(name + "-link")
	require.ErrorIs(t, err, ErrKeyFile)
	require.ErrorContains(t, err, "link")
}
