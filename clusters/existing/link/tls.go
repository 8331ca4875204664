package link

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Authority makes the identities of one session. Its key is in memory only.
type Authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

// Identity is a certificate with its key, and the authority that peers must be certified by; each is PEM.
type Identity struct {
	CA   []byte `json:"ca"`
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`

	Limits Signed `json:"limits"` // Of an agent.
}

// validity is the nominal validity of certificates; see config.
const validity = 24 * time.Hour

// NewAuthority makes an authority.
func NewAuthority(now time.Time) (*Authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "seatrial"},
		NotBefore: now, NotAfter: now.Add(validity), KeyUsage: x509.KeyUsageCertSign,
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert: cert, key: key}, err
}

// Node makes the identity of the agent on the node of the limits. Other agents refuse it.
func (a *Authority) Node(l Limits) (Identity, error) {
	limits, err := a.Sign(l)
	if err != nil {
		return Identity{}, err
	}
	i, err := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: l.Node}, DNSNames: []string{l.Node},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	i.Limits = limits
	return i, err
}

// Harness makes the identity that agents accept.
func (a *Authority) Harness() (Identity, error) {
	return a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "harness"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (Identity, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("make key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Identity{}, fmt.Errorf("make serial number: %w", err)
	}
	template.SerialNumber, template.KeyUsage = serial, x509.KeyUsageDigitalSignature
	template.NotBefore, template.NotAfter = a.cert.NotBefore, a.cert.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return Identity{}, fmt.Errorf("make certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("encode key: %w", err)
	}
	return Identity{
		CA:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}),
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}

// Server returns the configuration of an agent.
func (i Identity) Server() (*tls.Config, error) { return i.config() }

// Client returns the configuration of the harness for the agent on a node.
func (i Identity) Client(node string) (*tls.Config, error) {
	config, err := i.config()
	if err != nil {
		return nil, err
	}
	config.ServerName = node
	return config, nil
}

// config verifies certificates at the time when they were made, since faults set the clocks of nodes. An identity is
// valid as long as its session.
func (i Identity) config() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(i.CA) {
		return nil, errors.New("read certificate of the authority: there is none")
	}
	at := pair.Leaf.NotBefore
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, Time: func() time.Time { return at },
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, RootCAs: pool,
	}, nil
}
