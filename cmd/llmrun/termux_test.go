package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTermuxFiles(t *testing.T) {
	const prefix = "/data/data/com.termux/files/usr"
	servers, roots := prefix+"/etc/resolv.conf", prefix+"/etc/tls/cert.pem"
	for name, c := range map[string]struct {
		env   map[string]string
		files []string
		want  networkFiles
	}{
		"Termux":               {map[string]string{"PREFIX": prefix}, []string{servers, roots}, networkFiles{servers, roots}},
		"Termux without them":  {map[string]string{"PREFIX": prefix}, nil, networkFiles{}},
		"a distribution in it": {map[string]string{"PREFIX": prefix}, []string{servers, roots, "/etc/resolv.conf", "/etc/ssl/certs"}, networkFiles{}},
		"chosen certificates":  {map[string]string{"PREFIX": prefix, "SSL_CERT_FILE": "mine"}, []string{servers, roots}, networkFiles{servers: servers}},
		"another system":       {map[string]string{"PREFIX": "/usr"}, []string{"/usr/etc/resolv.conf", "/usr/etc/tls/cert.pem"}, networkFiles{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := termuxFiles(func(key string) string { return c.env[key] }, func(path string) bool { return slices.Contains(c.files, path) })
			require.Equal(t, c.want, got)
		})
	}
}

func TestNameServers(t *testing.T) {
	servers := nameServers("# a comment\nnameserver 192.0.2.1\n\nnameserver 2001:db8::1 # second\nnameserver\noptions edns0\n")
	require.Equal(t, []string{"192.0.2.1:53", "[2001:db8::1]:53"}, servers)
	var tried []string
	refused := errors.New("refused")
	dial := dialFirst(servers, func(_ context.Context, network, address string) (net.Conn, error) {
		if tried = append(tried, network+" "+address); len(tried) == 1 {
			return nil, refused
		}
		return nil, nil
	})
	_, err := dial(context.Background(), "udp", "127.0.0.1:53")
	require.NoError(t, err)
	require.Equal(t, []string{"udp 192.0.2.1:53", "udp [2001:db8::1]:53"}, tried)
	failing := dialFirst(servers[:1], func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	_, err = failing(context.Background(), "udp", "127.0.0.1:53")
	require.ErrorIs(t, err, refused)
}
