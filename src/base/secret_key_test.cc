#include "base/secret_key.hpp"

#include <gmock/gmock.h>

namespace stagewire::base {
namespace {

using testing::HasSubstr;
using testing::Not;

// The pair of keys that ZeroMQ's RFC 32 shows in both forms.
TEST(SecretKey, hexadecimal_digits_become_z85) {
  EXPECT_EQ(*z85_secret_key("bb88471d65e2659b30c55a5321cebb5aab2b70a398645c26dca2b2fcb43fc518"),
            "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID");
  EXPECT_EQ(*z85_secret_key("7BB864B489AFA3671FBE69101F94B38972F24816DFB01B51656B3FEC8DFD0888"),
            "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs");
  EXPECT_EQ(*z85_secret_key(std::string(64, '0')), std::string(40, '0'));
}

TEST(SecretKey, z85_stays_as_it_is) {
  const std::string key = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
  EXPECT_EQ(*z85_secret_key(key), key);
}

TEST(SecretKey, R16_other_text_is_refused_and_not_repeated) {
  for (const std::string& key : {std::string("hunter2"), std::string(40, '~'), std::string(63, 'a'),
                                 std::string(64, 'g'), std::string(65, 'a')}) {
    const auto refused = z85_secret_key(key);
    ASSERT_FALSE(refused.ok()) << key;
    EXPECT_EQ(refused.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().message(), Not(HasSubstr(key)));
    EXPECT_THAT(refused.error().message(), HasSubstr("openssl rand -hex 32"));
  }
}

}  // namespace
}  // namespace stagewire::base
