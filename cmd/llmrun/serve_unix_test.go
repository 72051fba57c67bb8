//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// served is a running llmrun serve.
type served struct {
	t       *testing.T
	command *exec.Cmd
	url     string
	log     *bytes.Buffer // complete when the command has ended
	logged  chan struct{} // closed then
}

// startServe starts llmrun serve on a free port.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	return startServeOf(t, "llmrun", args...)
}

// startServeOf starts the serve of a program on a free port.
func startServeOf(t *testing.T, program string, args ...string) *served {
	t.Helper()
	s := &served{t: t, log: &bytes.Buffer{}, logged: make(chan struct{})}
	s.command = exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	errors, err := s.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.command.Start())
	t.Cleanup(func() { _ = s.command.Process.Kill() })
	lines := bufio.NewReader(errors)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(`^llmrun: serving on (https?://127\.0\.0\.1:\d+)\n$`).FindStringSubmatch(line)
	require.NotNil(t, found, line)
	s.url = found[1]
	go func() {
		defer close(s.logged)
		_, _ = io.Copy(s.log, lines)
	}()
	return s
}

// post sends a request and returns the response, whose body the caller closes.
func (s *served) post(path, key, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Close = true
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	return answer
}

// stop sends a signal and checks that the server ends well.
func (s *served) stop(signal syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.command.Process.Signal(signal))
	s.wait()
}

// wait waits for the end of the server and checks the exit code.
func (s *served) wait() {
	s.t.Helper()
	<-s.logged
	_ = s.command.Wait()
	require.Zero(s.t, s.command.ProcessState.ExitCode(), s.log)
}

// TestServe starts the server as its users do. A prompt that one process has read is known to the next, a running answer is
// finished after SIGTERM, and keys are asked for.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("the bundled model is too slow under the race detector")
	}
	cache := t.TempDir()
	keys := filepath.Join(t.TempDir(), "keys.txt")
	require.NoError(t, os.WriteFile(keys, []byte("\n one \ntwo\n"), 0o600))
	prompt := strings.Repeat("The fox went into the wood and came back. ", 60)
	body := fmt.Sprintf(`{"model":"llmrun","prompt":%q,"max_tokens":3,"temperature":0}`, prompt)
	ask := func(s *served) (text string, cached int) {
		answer := s.post("/v1/completions", "two", body)
		defer answer.Body.Close()
		var got struct {
			Choices []struct{ Text string }
			Usage   struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&got))
		return got.Choices[0].Text, got.Usage.Details.Cached
	}

	s := startServe(t, "--cache-dir", cache, "--api-key-file", keys)
	want, cached := ask(s)
	require.Zero(t, cached)
	refused := s.post("/v1/completions", "three", body)
	refused.Body.Close()
	require.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	running := s.post("/v1/completions", "one", `{"prompt":"Once upon a time","stream":true,"max_tokens":20,"temperature":0}`)
	_, err := running.Body.Read(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, s.command.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(running.Body)
	running.Body.Close()
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), "the answer is finished")
	s.wait()
	require.NotContains(t, s.log.String(), "chmod")
	require.Contains(t, s.log.String(), "level=INFO msg=request method=POST path=/v1/completions status=200")
	require.NotContains(t, s.log.String(), "fox")

	require.NoError(t, os.Chmod(keys, 0o644))
	s = startServe(t, "--cache-dir", cache, "--api-key-file", keys, "--ram", "120MiB")
	again, cached := ask(s)
	require.Equal(t, want, again)
	require.Greater(t, cached, 500)
	s.stop(syscall.SIGINT)
	require.Contains(t, s.log.String(), "llmrun: --api-key-file "+keys+": other users of this machine may read or change it; run chmod 600 on it")
}

// writeCertificate writes a certificate for the loopback address and its key, and returns their paths and what trusts it.
func writeCertificate(t *testing.T) (certificate, key string, trust *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	secretDER, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	return writePEM(t, &pem.Block{Type: "CERTIFICATE", Bytes: der}), writePEM(t, &pem.Block{Type: "PRIVATE KEY", Bytes: secretDER}), trust
}

func writePEM(t *testing.T, block *pem.Block) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	return path
}

// TestServeByHTTPS checks that the server answers by HTTPS alone with the files of a certificate, and what it says about wrong ones.
func TestServeByHTTPS(t *testing.T) {
	certificate, key, trust := writeCertificate(t)
	s := startServe(t, "--no-kv-cache", "--keep-alive", "10m", "--tls-cert", certificate, "--tls-key", key)
	require.True(t, strings.HasPrefix(s.url, "https://"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, ForceAttemptHTTP2: true}}
	answer, err := client.Get(s.url + "/health")
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, 1, answer.ProtoMajor)
	client.CloseIdleConnections()
	plain, err := http.Get(strings.Replace(s.url, "https", "http", 1) + "/health")
	require.NoError(t, err)
	plain.Body.Close()
	require.Equal(t, http.StatusBadRequest, plain.StatusCode)
	s.stop(syscall.SIGINT)

	for _, c := range []struct {
		flags serveFlags
		want  string
	}{
		{serveFlags{tlsCert: certificate}, "--tls-cert needs --tls-key"},
		{serveFlags{tlsKey: key}, "--tls-key needs --tls-cert"},
		{serveFlags{tlsCert: key, tlsKey: key}, "--tls-cert " + key},
		{serveFlags{tlsCert: certificate, tlsKey: filepath.Join(t.TempDir(), "none")}, "no such file"},
		{serveFlags{tlsCert: certificate, tlsKey: writePEM(t, &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte{1}})}, "the key is encrypted: decrypt it"},
		{serveFlags{tlsCert: certificate, tlsKey: writePEM(t, &pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: []byte{1}})}, "the key is encrypted: decrypt it"},
		{serveFlags{tlsCert: certificate, tlsKey: writePEM(t, &pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}})}, "failed to parse private key"},
	} {
		_, err := c.flags.tls()
		require.ErrorContains(t, err, c.want)
	}
}

// TestCertificateProblem checks that the dates of a certificate, of which a client would complain, are reported.
func TestCertificateProblem(t *testing.T) {
	from, to := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	c := &tls.Config{Certificates: []tls.Certificate{{Leaf: &x509.Certificate{NotBefore: from, NotAfter: to}}}}
	require.Empty(t, certificateProblem(c, from))
	require.Empty(t, certificateProblem(c, to))
	require.Equal(t, "the certificate has expired on 2026-04-01: clients refuse it", certificateProblem(c, to.Add(time.Second)))
	require.Equal(t, "the certificate is not valid before 2026-03-01 00:00:00 UTC: clients refuse it; is the clock right?", certificateProblem(c, from.Add(-time.Second)))
	certificate, key, _ := writeCertificate(t)
	c, err := (&serveFlags{tlsCert: certificate, tlsKey: key}).tls()
	require.NoError(t, err)
	require.Contains(t, certificateProblem(c, time.Date(2100, 1, 2, 0, 0, 0, 0, time.UTC)), "has expired on 2100-01-01", "of a file")
}
