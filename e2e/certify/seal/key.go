package seal

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/crypto/ssh"
)

// Key signs certificates, or only verifies them. Its ID is the fingerprint that `ssh-keygen -l` shows.
type Key struct {
	id     string
	public crypto.PublicKey
	signer crypto.Signer // Nil if it only verifies.
}

// errKind says which keys are taken. RSA is left out: its signatures come in several forms.
var errKind = errors.New("it is neither an Ed25519 nor an ECDSA P-256 key; make one: " +
	"ssh-keygen -t ed25519 -f seatrial.key")

// ParsePrivateKey reads a private key: of OpenSSH, PKCS #8 or SEC 1 as PEM, or of cosign. The password is for one that
// is encrypted.
func ParsePrivateKey(data, password []byte) (*Key, error) {
	raw, err := privateKey(data, password)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	if pointer, ok := raw.(*ed25519.PrivateKey); ok { // As OpenSSH's form gives it.
		raw = *pointer
	}
	signer, ok := raw.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read the private key: %w", errKind)
	}
	key, err := publicKey(signer.Public())
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key.signer = signer
	return key, nil
}

func privateKey(data, password []byte) (any, error) {
	block, _ := pem.Decode(data)
	if block != nil && (strings.HasSuffix(block.Type, "SIGSTORE PRIVATE KEY") ||
		strings.HasSuffix(block.Type, "COSIGN PRIVATE KEY")) {
		der, err := encrypted.Decrypt(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		return x509.ParsePKCS8PrivateKey(der)
	}
	var locked *ssh.PassphraseMissingError
	raw, err := ssh.ParseRawPrivateKey(data)
	if errors.As(err, &locked) && len(password) > 0 {
		return ssh.ParseRawPrivateKeyWithPassphrase(data, password)
	}
	return raw, err
}

// ParsePublicKey reads a public key: PKIX as PEM, or a line as in authorized_keys of OpenSSH.
func ParsePublicKey(data []byte) (*Key, error) {
	if block, _ := pem.Decode(data); block != nil {
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the public key: %w", err)
		}
		return publicKey(public)
	}
	line, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("read the public key: it is neither PEM nor a line of OpenSSH: %w", err)
	}
	public, ok := line.(ssh.CryptoPublicKey)
	if !ok {
		return nil, fmt.Errorf("read the public key: %w", errKind)
	}
	return publicKey(public.CryptoPublicKey())
}

func publicKey(public crypto.PublicKey) (*Key, error) {
	switch k := public.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, errKind
		}
	default:
		return nil, errKind
	}
	of, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	return &Key{id: ssh.FingerprintSHA256(of), public: public}, nil
}

// KeyID names the key.
func (k *Key) KeyID() (string, error) { return k.id, nil }

// Public returns the public key.
func (k *Key) Public() crypto.PublicKey { return k.public }

// Sign signs data.
func (k *Key) Sign(_ context.Context, data []byte) ([]byte, error) {
	if k.signer == nil {
		return nil, errors.New("a public key signs nothing")
	}
	if _, ok := k.public.(ed25519.PublicKey); ok {
		return k.signer.Sign(rand.Reader, data, crypto.Hash(0))
	}
	sum := sha256.Sum256(data)
	return k.signer.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// Verify returns an error unless the key's owner signed data.
func (k *Key) Verify(_ context.Context, data, sig []byte) error {
	good := false
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		good = ed25519.Verify(public, data, sig)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(data)
		good = ecdsa.VerifyASN1(public, sum[:], sig)
	}
	if !good {
		return errors.New("the signature does not fit")
	}
	return nil
}
