#include "deploy/signature.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "deploy/model.hpp"

namespace gex::deploy {

namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kBlockBytes = 64;

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

Digest digest_in(std::string_view bytes) {
  Digest digest;
  std::copy_n(bytes.begin(), kDigestBytes, reinterpret_cast<char*>(digest.bytes.data()));
  return digest;
}

Digest digest_of_parts(const std::vector<SignedPart>& parts, const Digest& weights) {
  Digester digester;
  for (const SignedPart& part : parts) digester.add(part.name).add(part.bytes);
  return digester.add(bytes_of(weights)).digest();
}

// Takes as long for all wrong digests.
bool equal(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (std::size_t k = 0; k < kDigestBytes; ++k)
    difference |= static_cast<unsigned>(a.bytes[k] ^ b.bytes[k]);
  return difference == 0;
}

}  // namespace

void check_key(std::string_view key) {
  if (key.size() < kLeastKeyBytes)
    fail(ErrorCode::invalid_argument, "the key has ", key.size(), " bytes; it needs at least ",
         kLeastKeyBytes);
}

Digest hmac(std::string_view key, std::string_view message) {
  std::string block(key);
  if (block.size() > kBlockBytes) block = bytes_of(digest_of(block));
  block.resize(kBlockBytes, '\0');
  const auto padded = [&](char with, std::string_view rest) {
    std::string text = block;
    for (char& byte : text) byte = static_cast<char>(byte ^ with);
    return digest_of(text.append(rest));
  };
  return padded(0x5c, bytes_of(padded(0x36, message)));
}

std::string signature_of(const std::vector<SignedPart>& parts, const Digest& weights,
                         std::string_view key) {
  check_key(key);
  const Digest sealed = hmac(key, bytes_of(digest_of_parts(parts, weights)));
  return std::string(bytes_of(weights)).append(bytes_of(sealed));
}

Digest verify_signature(const Container& container, std::string_view key) {
  check_key(key);
  if (!container.has(kSignatureSection))
    fail(ErrorCode::invalid_argument, "it has no signature; gex compile --key signs files");
  const std::string_view signature = container.section(kSignatureSection);
  if (signature.size() != 2 * kDigestBytes)
    fail(ErrorCode::parse_error, "its signature is damaged");
  std::vector<SignedPart> parts;
  for (const Section& section : container.sections())
    if (section.name != kWeightsSection && section.name != kSignatureSection)
      parts.push_back({section.name, section.bytes});
  const Digest weights = digest_in(signature);
  const Digest expected = hmac(key, bytes_of(digest_of_parts(parts, weights)));
  if (!equal(expected, digest_in(signature.substr(kDigestBytes))))
    fail(ErrorCode::invalid_argument,
         "its signature is not one of this key: it was signed with another key, or changed");
  return weights;
}

}  // namespace gex::deploy
