#include <gtest/gtest.h>

#include <random>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "program/artefact.hpp"
#include "program/bytes.hpp"

namespace gex::program {
namespace {

Artefact example() {
  Artefact artefact;
  artefact.kind = "program";
  artefact.key = "k";
  artefact.build = "b";
  artefact.target = "t";
  artefact.label = "main";
  artefact.sections = {{"one", std::string("a\0b", 3)}, {"empty", ""}};
  return artefact;
}

Program with_constant() {
  return parse_program(R"(program "p"
symbol s0 in [1, 64]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "c" constant i16 [2] bytes [4] data i16 [2] 0x0100ff7f
buffer %3 "d" constant f32 [] bytes [4] data f32 [] 0x0000c07f
main 0
segment 0 "main"
  copy %1 from %0 bytes [s0*4]
)");
}

std::string reason_of(std::string_view bytes) {
  try {
    read_artefact(bytes);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::parse_error);
    return error.what();
  }
  return "";
}

TEST(Digest, IsSha256) {
  EXPECT_EQ(digest_of("").hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1000000, 'a');
  Digester parts;
  for (std::size_t i = 0; i < million.size(); i += 1000)
    parts.add_bytes(std::string_view(million).substr(i, 1000));
  EXPECT_EQ(parts.digest().hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Digest, FieldsDoNotRunIntoEachOther) {
  EXPECT_NE(Digester().add("ab").add("c").digest(), Digester().add("a").add("bc").digest());
}

TEST(Artefact, ReadsBackWhatWasWritten) {
  const Artefact read = read_artefact(write(example()));
  EXPECT_EQ(read.kind, "program");
  EXPECT_EQ(read.label, "main");
  EXPECT_EQ(read.section("one"), std::string("a\0b", 3));
  EXPECT_EQ(read.section("empty"), "");
  EXPECT_THROW(read.section("two"), UserError);
}

TEST(Artefact, SaysWhatIsWrongWithABadOne) {
  const std::string good = write(example());
  EXPECT_NE(reason_of("").find("not a file of gex"), std::string::npos);
  EXPECT_NE(reason_of("ELF" + good).find("not a file of gex"), std::string::npos);
  std::string old = good;
  old[8] = 99;
  EXPECT_NE(reason_of(old).find("format version 99"), std::string::npos);
  std::string damaged = good;
  damaged[good.rfind(std::string("a\0b", 3))] = 'x';
  EXPECT_NE(reason_of(damaged).find("\"one\" is damaged"), std::string::npos);
  EXPECT_NE(reason_of(good + "x").find("1 extra bytes at the end"), std::string::npos);
}

TEST(Artefact, EveryFlippedBitAndEveryTruncationIsDetected) {
  const std::string good = write(example());
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_NE(reason_of(std::string_view(good).substr(0, i)), "") << "cut at " << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      EXPECT_NE(reason_of(flipped), "") << "bit " << bit << " of byte " << i;
    }
  }
}

TEST(Artefact, ProgramComesBackWithItsConstants) {
  const Program program = with_constant();
  Artefact artefact;
  save(program, artefact);
  const Program loaded = load(read_artefact(write(artefact)));
  EXPECT_EQ(print(loaded), print(program));
}

TEST(Artefact, LargeSectionsAreWrittenWithoutACopyAndReadInPlace) {
  const Program program = with_constant();
  Artefact artefact;
  save(program, artefact);
  bool direct = false;
  write(artefact, [&](std::string_view piece) {
    direct |= piece.data() == reinterpret_cast<const char*>(program.buffers[2].data->data());
  });
  EXPECT_TRUE(direct);
  const std::string bytes = write(artefact);
  const Artefact view = view_artefact(bytes);
  const std::string_view constant = view.section("constant 2");
  EXPECT_GE(constant.data(), bytes.data());
  EXPECT_EQ((constant.data() - bytes.data()) % 64, 0);
}

// Checksums are right here, contents are not: section checks can't detect that.
TEST(Artefact, NonsenseInSectionsIsAnErrorNeverACrash) {
  const Program program = with_constant();
  Artefact saved;
  save(program, saved);
  const Artefact artefact = read_artefact(write(saved));
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    Artefact bad = artefact;
    std::string& bytes = bad.sections[static_cast<std::size_t>(round % 3)].bytes;
    const std::size_t at = random() % bytes.size();
    if (round % 3 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(random());
    }
    try {
      const Program loaded = load(bad);
      verify(loaded);
    } catch (const Error&) {
      continue;
    }
  }
}

TEST(Bytes, NothingIsReadPastTheEnd) {
  ByteReader reader(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff", 8));
  EXPECT_THROW(reader.text(), UserError);
  ByteReader counted(std::string_view("\x09\0\0\0\0\0\0\0abc", 11));
  EXPECT_THROW(counted.count(), UserError);
}

}  // namespace
}  // namespace gex::program
