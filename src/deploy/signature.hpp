#pragma once
// Signatures of model files: whoever has the key that a file was signed with knows that nobody
// without it changed the file. HMAC-SHA-256 (RFC 2104) over the names and contents of all sections
// and over a digest of the weights, which is part of the signature: a load need not read them.

#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "deploy/container.hpp"

namespace gex::deploy {

inline constexpr std::string_view kSignatureSection = "signature";
inline constexpr std::size_t kLeastKeyBytes = 16;

// UserError(invalid_argument) if it is too short to be a secret.
void check_key(std::string_view key);
Digest hmac(std::string_view key, std::string_view message);

// A section by name, without that of the weights.
struct SignedPart {
  std::string name;
  std::string_view bytes;
};
std::string signature_of(const std::vector<SignedPart>& parts, const Digest& weights,
                         std::string_view key);

// UserError(invalid_argument): the file has no signature, or not one of this key. Returns the
// digest that the weights should have.
Digest verify_signature(const Container& container, std::string_view key);

}  // namespace gex::deploy
