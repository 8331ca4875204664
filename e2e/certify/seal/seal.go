// Package seal signs certificates and opens signed ones: Open returns what the key's owner signed, byte for byte.
package seal

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	svr "github.com/in-toto/attestation/go/predicates/svr/v01"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/check"
)

const (
	// PredicateType is that of a statement with a Certificate.
	PredicateType = "https://github.com/seatrial/seatrial/certificate/v1"
	// summaryType is that of a Simple Verification Result: in-toto/attestation, spec/predicates/svr.md.
	summaryType = "https://in-toto.io/attestation/svr/v0.1"
	verifierID  = "https://github.com/seatrial/seatrial"
	payloadType = "application/vnd.in-toto+json"
	sumsType    = "text/plain; sha256sums" // What sha256sum --check reads.
)

// Sign returns the signed statement with the certificate: a DSSE envelope around an in-toto statement, as JSON.
func Sign(c certificate.Certificate, key *Key) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the certificate: %w", err)
	}
	return sign(c, PredicateType, text, key)
}

// SignSummary returns a signed Simple Verification Result with the promises that are PASS, and whether the certificate
// is, for policy engines that do not know a Certificate.
func SignSummary(c certificate.Certificate, key *Key) ([]byte, error) {
	result := &svr.SimpleVerificationResult{
		Verifier: &svr.SimpleVerificationResult_Verifier{Id: verifierID}, TimeCreated: timestamppb.New(c.Issued),
	}
	for _, p := range c.Promises {
		if p.Verdict == check.Pass {
			result.Properties = append(result.Properties, "SEATRIAL_"+p.Check)
		}
	}
	if c.Verdict == check.Pass {
		result.Properties = append(result.Properties, "SEATRIAL_certificate")
	}
	text, err := protojson.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encode the verification result: %w", err)
	}
	return sign(c, summaryType, text, key)
}

// sign makes a statement about the cluster and signs it.
func sign(c certificate.Certificate, kind string, predicate []byte, key *Key) ([]byte, error) {
	s := &intoto.Statement{
		Type: intoto.StatementTypeUri, PredicateType: kind, Predicate: &structpb.Struct{},
		Subject: []*intoto.ResourceDescriptor{{
			Name: "cluster", Digest: map[string]string{"sha256": certificate.Subject(c.Cluster)},
		}},
	}
	if err := protojson.Unmarshal(predicate, s.Predicate); err != nil {
		return nil, fmt.Errorf("make a statement: %w", err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("make a statement: %w", err)
	}
	text, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a statement: %w", err)
	}
	var body bytes.Buffer // Its white space would differ from build to build.
	if err := json.Compact(&body, text); err != nil {
		return nil, fmt.Errorf("encode a statement: %w", err)
	}
	return wrap(payloadType, body.Bytes(), key)
}

// wrap signs a text: a DSSE envelope, as JSON.
func wrap(kind string, body []byte, key *Key) ([]byte, error) {
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	envelope, err := signer.SignPayload(context.Background(), kind, body)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return encode(envelope)
}

// SignSums returns the signed checksums of a release: a DSSE envelope around them, as JSON.
func SignSums(sums []byte, key *Key) ([]byte, error) { return wrap(sumsType, sums, key) }

// OpenSums returns the checksums that the key's owner signed, byte for byte.
func OpenSums(data []byte, key *Key) ([]byte, error) {
	sums, err := payload(data, key, sumsType)
	if err != nil {
		return nil, fmt.Errorf("open the checksums: %w", err)
	}
	return sums, nil
}

// encode returns the only form of an envelope that Open accepts, so that no byte can be changed unnoticed.
func encode(e *dsse.Envelope) ([]byte, error) {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the envelope: %w", err)
	}
	return append(text, '\n'), nil
}

// Open returns the certificate that the key's owner signed, byte for byte. It does not judge the content.
func Open(data []byte, key *Key) (c certificate.Certificate, err error) {
	defer func() {
		if err != nil {
			c, err = certificate.Certificate{}, fmt.Errorf("open the certificate: %w", err)
		}
	}()
	body, err := payload(data, key, payloadType)
	if err != nil {
		return c, err
	}
	var s intoto.Statement
	if err := errors.Join(protojson.Unmarshal(body, &s), s.Validate()); err != nil {
		return c, fmt.Errorf("it is no in-toto statement: %w", err)
	}
	if s.GetPredicateType() != PredicateType {
		return c, fmt.Errorf("its predicate is %q, and must be %q", s.GetPredicateType(), PredicateType)
	}
	predicate, err := s.GetPredicate().MarshalJSON()
	if err != nil {
		return c, err
	}
	in := json.NewDecoder(bytes.NewReader(predicate))
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return c, fmt.Errorf("a later version of Seatrial made it, or another program: %w", err)
	}
	digest := map[string]string{"sha256": certificate.Subject(c.Cluster)}
	about := &intoto.ResourceDescriptor{Name: "cluster", Digest: digest}
	if len(s.GetSubject()) != 1 || !proto.Equal(s.GetSubject()[0], about) {
		return c, errors.New("its subject is not the cluster that it describes")
	}
	return c, nil
}

// payload returns what an envelope of a kind holds, if the key signed it.
func payload(data []byte, key *Key, kind string) ([]byte, error) {
	var e dsse.Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("it is no DSSE envelope: %w", err)
	}
	if e.PayloadType != kind {
		return nil, fmt.Errorf("it holds %q, and must hold %q", e.PayloadType, kind)
	}
	if again, err := encode(&e); err != nil || !bytes.Equal(again, data) {
		return nil, errors.Join(errors.New("it was changed, or written by another program"), err)
	}
	if len(e.Signatures) != 1 || e.Signatures[0].KeyID != key.id {
		return nil, fmt.Errorf("it is not signed by the key %s alone", key.id)
	}
	for _, text := range []string{e.Payload, e.Signatures[0].Sig} {
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
			return nil, errors.New("it was changed: its base64 is not the usual form")
		}
	}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		return nil, err
	}
	_, body, err := verifier.VerifyAndDecode(context.Background(), &e)
	if err != nil {
		return nil, fmt.Errorf("the signature is not that of key %s: %w", key.id, err)
	}
	return body, nil
}

// Key signs certificates, or only verifies them. Its ID is the fingerprint that `ssh-keygen -l` shows.
type Key struct {
	id     string
	public crypto.PublicKey
	signer crypto.Signer // Nil if it only verifies.
}

// errKind says which keys are accepted. RSA is not: its signatures come in several forms.
var errKind = errors.New("it is neither an Ed25519 nor an ECDSA P-256 key; make one: " +
	"ssh-keygen -t ed25519 -f seatrial.key")

// ParsePrivateKey reads a private key: of OpenSSH, PKCS #8 or SEC 1 as PEM, or of cosign. The password is for an
// encrypted one.
func ParsePrivateKey(data, password []byte) (key *Key, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read the private key: %w", err)
		}
	}()
	raw, err := privateKey(data, password)
	if err != nil {
		return nil, err
	}
	if pointer, ok := raw.(*ed25519.PrivateKey); ok { // As OpenSSH's form gives it.
		raw = *pointer
	}
	signer, ok := raw.(crypto.Signer)
	if !ok {
		return nil, errKind
	}
	if key, err = publicKey(signer.Public()); err == nil {
		key.signer = signer
	}
	return key, err
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
func ParsePublicKey(data []byte) (key *Key, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read the public key: %w", err)
		}
	}()
	if block, _ := pem.Decode(data); block != nil {
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return nil, errors.New("it is a private key; give the public one, which ends in .pub")
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PEM %q holds no public key; give the public key of the signer", block.Type)
		}
		return publicKey(public)
	}
	line, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("it is neither PEM nor a line of OpenSSH: %w", err)
	}
	public, ok := line.(ssh.CryptoPublicKey)
	if !ok {
		return nil, errKind
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
