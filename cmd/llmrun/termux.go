package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Android tells programs that are not apps neither its name servers nor, to those for Linux, its certificates. Termux has
// files for both below PREFIX, where Go does not look.

// networkFiles are the files that a program needs to reach servers by their names.
type networkFiles struct {
	servers string // "" where Go finds them
	roots   string // certificates; "" where Go finds them
}

// termuxFiles returns the files of Termux that stand for those that a system lacks. exists reports whether a file is there.
func termuxFiles(getenv func(string) string, exists func(string) bool) (f networkFiles) {
	prefix := getenv("PREFIX")
	if !strings.Contains(prefix, "com.termux") {
		return f
	}
	if servers := filepath.Join(prefix, "etc", "resolv.conf"); !exists("/etc/resolv.conf") && exists(servers) {
		f.servers = servers
	}
	system := exists("/etc/ssl/certs") || getenv("SSL_CERT_FILE") != "" || getenv("SSL_CERT_DIR") != ""
	if roots := filepath.Join(prefix, "etc", "tls", "cert.pem"); !system && exists(roots) {
		f.roots = roots
	}
	return f
}

// use makes Go look into the files.
func (f networkFiles) use() {
	if f.roots != "" {
		_ = os.Setenv("SSL_CERT_FILE", f.roots) // it fails for names with zero bytes only
	}
	if f.servers == "" {
		return
	}
	text, err := os.ReadFile(f.servers)
	if err != nil {
		return // the error of the look-up says that there is no server
	}
	if servers := nameServers(string(text)); len(servers) > 0 {
		net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: dialFirst(servers, (&net.Dialer{}).DialContext)}
	}
}

// nameServers returns the addresses of the servers in a resolv.conf.
func nameServers(text string) (list []string) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "nameserver" {
			list = append(list, net.JoinHostPort(fields[1], "53"))
		}
	}
	return list
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialFirst returns a function that connects to the first of the servers that can be reached, in place of the address
// that Go would have used.
func dialFirst(servers []string, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for _, server := range servers {
			if conn, err = dial(ctx, network, server); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
}
